#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "comm/cuda_communicator.hpp"
#include "comm/nccl_api.hpp"

namespace tpinfer {

/// DeviceCommunicator over NCCL; everything stands in the compute stream and may be captured in graphs.
///
/// reduce(): float64 sums are exact, so that NCCL may add in any order, and a kernel rounds them to float32. float32
/// sums of more than two ranks are added in the order of ranks, always the same: NCCL's own order depends on where in
/// the buffer an element stands, hence on the other rows of a batch.
///
/// A collective whose peer is gone hangs in the stream, and with it a host that waits for the stream. A thread of its
/// own watches the oldest collective: after the timeout, or when NCCL tells of a failure, it aborts NCCL, which ends
/// the collectives, and throw_if_failed() and all further calls throw. In stats(), `seconds` is device time outside of
/// graphs; wait_seconds stays 0, since a stream cannot tell waiting from moving.
class NcclCommunicator final : public CudaCommunicator {
 public:
  /// Its buffers alone; not collective.
  NcclCommunicator(const Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options);
  /// Collective, before all else.
  void connect(Communicator& comm, int device);
  ~NcclCommunicator() override;

  std::string_view kind() const noexcept override { return "nccl"; }
  bool capturable() const noexcept override { return true; }
  void reduce(const Tensor& partials, const Tensor& total) override;
  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths, float* out) override;
  /// Waits for what is enqueued.
  CommunicationStats stats() const override;
  void throw_if_failed() override;
  void launched(const CommunicationStats& captured) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// A collective, or a graph of them, that was enqueued.
  struct Span {
    CudaEvent begin;
    CudaEvent end;
    bool pending = false;
    bool timed = false;
    Clock::time_point since;
  };
  static constexpr std::size_t kSpans = 256;  // about two steps of a large model

  template <class Call>
  void call(std::string_view what, Call&& enqueue);
  template <class Work>
  void enqueue(std::string_view what, std::uint64_t bytes, Work&& work);
  void add_in_order(float* partials, float* total, std::int64_t count);
  void exchange_shares(const float* partials, std::int64_t count);
  void collect_shares(float* total, std::int64_t count);
  void begin_span(bool timed);
  void end_span();
  void take_over(Span& span) const;

  void watch(int device);
  void look();
  void give_up(std::string sentence);

  const NcclApi& api_;
  std::chrono::duration<double> timeout_;
  std::timed_mutex in_nccl_;  ///< held while NCCL is called with the communicator
  ncclComm_t nccl_ = nullptr;

  mutable std::mutex mutex_;  ///< guards what follows
  mutable std::array<Span, kSpans> spans_;
  std::size_t next_span_ = 0;
  mutable double seconds_ = 0;
  Clock::time_point last_end_;
  std::string failure_;
  bool stop_ = false;
  std::condition_variable wake_;
  std::atomic<bool> failed_ = false;
  std::thread watcher_;
};

}  // namespace tpinfer
