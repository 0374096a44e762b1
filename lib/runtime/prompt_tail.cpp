#include "runtime/prompt_tail.hpp"

#include <sys/resource.h>

#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr int kNice = 10;

}  // namespace

PromptTail::PromptTail(PromptReading& reading, const EncodingTerms& terms, std::function<void(EncodedPrompt&)> settle)
    : reading_(reading), encoder_(terms), settle_(std::move(settle)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    throw Error(ExitCode::internal, fmt::format("no thread can be started to read prompts: {}", e.what()));
  }
}

PromptTail::~PromptTail() { stop(); }

void PromptTail::stop() {
  reading_.end();
  if (thread_.joinable()) thread_.join();
}

void PromptTail::run() {
  ::setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, under Linux; without it things only go slower
  try {
    while (auto prompt = reading_.next(encoder_)) {
      if (prompt->prompt.request) settle_(prompt->prompt);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(*prompt));
      if (ready_.size() == 1) changed_.notify_one();
    }
    end(State::ended);
  } catch (const ReadingStopped&) {
    end(State::stopped);
  } catch (...) {
    fault_ = std::current_exception();
    end(State::failed);
  }
}

void PromptTail::end(State state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  changed_.notify_one();
}

std::deque<PlacedPrompt> PromptTail::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (patience.count() == 0) {
    if (!lock.try_lock()) return {};
  } else {
    lock.lock();
    // a reader that was stopped wakes nobody: the caller will soon learn why it was
    changed_.wait_for(lock, patience,
                      [&] { return !ready_.empty() || state_ == State::ended || state_ == State::failed; });
  }
  return std::exchange(ready_, {});
}

bool PromptTail::ended() {
  const std::lock_guard lock(mutex_);
  if (!ready_.empty()) return false;
  if (state_ == State::failed) std::rethrow_exception(fault_);
  return state_ == State::ended;
}

}  // namespace tpinfer
