// The thread of NcclCommunicator that sees collectives hang.
#include <algorithm>

#include "comm/nccl_communicator.hpp"

namespace tpinfer {

void NcclCommunicator::watch(int device) {
  static_cast<void>(cudaSetDevice(device));
  // Asking for events must not disturb a capture of graphs in another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode));
  const auto interval = std::min(timeout_ / 20, std::chrono::duration<double>(1.0));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return stop_; }) && !failed_) {
    lock.unlock();
    look();
    lock.lock();
  }
}

void NcclCommunicator::look() {
  ncclResult_t state = ncclSuccess;
  if (api_.async_error(nccl_, &state) != ncclSuccess) return;
  if (state != ncclSuccess && state != ncclInProgress) {
    give_up(fmt::format("a collective failed on rank {} of {}: NCCL reports \"{}\"", rank(), size(),
                        api_.error_text(state)));
    return;
  }
  std::string sentence;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < kSpans; ++i) {
      Span& span = spans_[(next_span_ + i) % kSpans];  // oldest first
      if (!span.pending) continue;
      const cudaError_t status = cudaEventQuery(span.end.get());
      if (status == cudaSuccess) {
        take_over(span);
        last_end_ = Clock::now();
        continue;
      }
      static_cast<void>(cudaGetLastError());
      if (status != cudaErrorNotReady) return;  // the device failed: whoever waits for it is told
      const std::chrono::duration<double> waited = Clock::now() - std::max(span.since, last_end_);
      if (waited > timeout_)
        sentence = fmt::format("a collective of GPUs took more than {:.0f} s on rank {} of {}", timeout_.count(),
                               rank(), size());
      break;
    }
  }
  if (!sentence.empty()) give_up(std::move(sentence));
}

void NcclCommunicator::give_up(std::string sentence) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(sentence);
    failed_ = true;
  }
  // The thread that enqueues may hang inside NCCL: aborting is what frees it.
  const bool alone = in_nccl_.try_lock_for(std::chrono::seconds(1));
  static_cast<void>(api_.give_up(std::exchange(nccl_, nullptr)));
  if (alone) in_nccl_.unlock();
}

}  // namespace tpinfer
