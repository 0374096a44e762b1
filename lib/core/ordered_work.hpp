#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tpinfer {

/// Work on a stream of items by several threads; the outcomes are handed over in the order of the items, by the thread
/// that gives them. Only as many items as keep the threads busy are on their way at a time.
template <class In, class Out>
class OrderedWork {
 public:
  /// `work` is called by any thread, `take` by the one that calls push() and finish(). One thread: no other is started.
  OrderedWork(int threads, std::function<Out(In&&)> work, std::function<void(Out&&)> take)
      : work_(std::move(work)), take_(std::move(take)) {
    try {
      for (int i = 0; threads > 1 && i < threads; ++i) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // the machine gives no more: go on with those that there are
    }
  }

  ~OrderedWork() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      wanted_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  /// An exception of `work` comes out of the push() or finish() at which its outcome is due.
  void push(In&& in) {
    if (threads_.empty()) return take_(work_(std::move(in)));
    while (slots_.size() >= 2 * threads_.size() + 1) hand_over();
    auto slot = std::make_shared<Slot>();
    slot->in = std::move(in);
    slots_.push_back(slot);
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(slot));
    wanted_.notify_one();
  }

  void finish() {
    while (!slots_.empty()) hand_over();
  }

 private:
  struct Slot {
    In in;
    std::optional<Out> out;
    std::exception_ptr fault;
  };

  void hand_over() {
    const std::shared_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [&] { return slot->out || slot->fault; });
    }
    if (slot->fault) std::rethrow_exception(slot->fault);
    take_(std::move(*slot->out));
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wanted_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      const std::shared_ptr<Slot> slot = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      std::optional<Out> out;
      std::exception_ptr fault;
      try {
        out = work_(std::move(slot->in));
      } catch (...) {
        fault = std::current_exception();
      }
      lock.lock();
      slot->out = std::move(out);
      slot->fault = fault;
      done_.notify_one();
    }
  }

  std::function<Out(In&&)> work_;
  std::function<void(Out&&)> take_;
  std::deque<std::shared_ptr<Slot>> slots_;    ///< in order, those not handed over yet
  std::deque<std::shared_ptr<Slot>> waiting_;  ///< of these, those that nobody works on
  std::mutex mutex_;
  std::condition_variable wanted_, done_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tpinfer
