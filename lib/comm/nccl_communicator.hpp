#pragma once

#include <nccl.h>

#include <chrono>
#include <vector>

#include "comm/nccl.hpp"
#include "core/cuda_handles.hpp"

namespace tpinfer {

/// Aborts: safe at any time, also when ranks are missing. The orderly end is in ~NcclCommunicator.
struct NcclTraits {
  using Handle = ncclComm_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle comm) const noexcept { ncclCommAbort(comm); }
};
using NcclHandle = UniqueHandle<NcclTraits>;

/// "2.28.9": the library that runs.
std::string nccl_version();

/// DeviceCommunicator over NCCL: reduce() is a float64 ncclAllReduce followed by a kernel that rounds to float32; both
/// stand in the compute stream. NCCL never blocks the host here: its calls are polled to the timeout.
///
/// A collective whose peer is gone hangs in the stream, where the host sees it only by asking NCCL: every collective
/// asks before it enqueues. In stats(), `seconds` is device time from events; wait_seconds stays 0, since a stream
/// cannot tell waiting from moving.
class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options);
  ~NcclCommunicator() override;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string_view kind() const noexcept override { return "nccl"; }
  double* partials() override { return static_cast<double*>(partials_.get()); }
  void reduce(std::int64_t count, float* total) override;
  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths, float* out) override;
  /// Waits for what is enqueued.
  CommunicationStats stats() const override;

 private:
  struct Span {
    CudaEvent begin;
    CudaEvent end;
    bool pending = false;  ///< recorded, not yet in stats_.seconds
  };

  void allocate(const DeviceCommunicatorOptions& options);
  void connect(Communicator& comm);
  /// Polls a call that NCCL has begun to its end; Error(communication) on failure or after the timeout.
  void settle(ncclResult_t result, std::string_view what);
  /// Error(communication) when NCCL knows of a failure of earlier collectives.
  void require_healthy(std::string_view what);
  Span& begin_span();
  void end_span(Span& span, std::uint64_t bytes);
  void place_blocks(const float* local, std::int64_t rows, std::span<const std::int64_t> widths, float* out);

  int rank_;
  int size_;
  cudaStream_t stream_;
  std::chrono::duration<double> timeout_;
  std::int64_t most_partials_;
  std::int64_t most_gathered_;
  CudaMemory partials_;  ///< float64 [most_partials]
  CudaMemory gathered_;  ///< rank 0: float32 [size, most_gathered]
  CudaMemory beyond_;    ///< one unsigned long long
  std::vector<Span> spans_;
  std::size_t next_span_ = 0;
  CommunicationStats stats_;
  bool failed_ = false;
  NcclHandle nccl_;  ///< goes first, while its buffers are still there
};

}  // namespace tpinfer
