#pragma once

#include "comm/host_device.hpp"
#include "comm/nccl.hpp"
#include "core/cuda_handles.hpp"

namespace tpinfer {

/// Base of the communicators over GPUs: buffers in device memory, checks and counts.
class CudaCommunicator : public HostDeviceCommunicator {
 public:
  /// Error(does_not_fit) when there is no room for its buffers.
  CudaCommunicator(const Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options);

  /// Tokens are chosen on rank 0's device.
  bool shares_rows() const noexcept override { return false; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  Tensor partials(const Tensor& total) override;
  CommunicationStats stats() const override;
  CommunicationStats take_captured() override;
  void launched(const CommunicationStats& captured) override;

  /// Bytes of device memory for `options`, without what NCCL takes itself.
  static std::uint64_t device_bytes(int rank, int ranks, const DeviceCommunicatorOptions& options);

 protected:
  cudaStream_t stream() const noexcept { return stream_; }
  bool capturing() const;
  void count_call(std::uint64_t bytes);
  /// total = float(sums), counting sums that are no longer exact.
  void round(const double* sums, std::int64_t count, float* total);
  /// Puts rank r's block, blocks + r * pitch (the own one: `local`), side by side into out.
  void place_blocks(const float* local, const float* blocks, std::int64_t pitch, std::int64_t rows,
                    std::span<const std::int64_t> widths, float* out);

  CudaMemory partials_;  ///< [most_partials] of options.partials; none where partials are summed in place
  CudaMemory gathered_;  ///< rank 0: float32 [size, most_gathered]
  CudaMemory scratch_;   ///< float32 sums over more than two ranks: see NcclCommunicator

 private:
  int rank_;
  int size_;
  cudaStream_t stream_;
  CudaMemory beyond_;  ///< one unsigned long long
  CommunicationStats captured_;
};

/// Largest float32 sum over more than two ranks that every rank computes for itself from all parts.
inline constexpr std::int64_t kSumAtOnce = 64 << 10;
/// Elements of one rank's share of a larger one.
std::int64_t share_of(std::int64_t count, int ranks) noexcept;

}  // namespace tpinfer
