#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/prompt_reading.hpp"

namespace tpinfer {

/// Reads and encodes what follows the first part of the prompts, in a thread of its own that leaves the cores to the
/// forward pass where that wants them.
class PromptTail {
 public:
  /// `reading` and what `terms` refer to must stay; nobody else may use `reading` but for its collector. `settle` is
  /// called by the thread for each prompt that can run.
  PromptTail(PromptReading& reading, const EncodingTerms& terms, std::function<void(EncodedPrompt&)> settle);
  /// Ends the thread.
  ~PromptTail();
  PromptTail(const PromptTail&) = delete;
  PromptTail& operator=(const PromptTail&) = delete;

  /// What has been encoded since the last call, in the order of the files; waits for `patience` at most while there is
  /// nothing. A patience of zero does not even wait for the thread's lock.
  std::deque<PlacedPrompt> take(std::chrono::milliseconds patience);
  /// Whether take() has given everything. Throws, once it has given what came before, what ended the reading early.
  bool ended();
  /// Ends the thread early; no error comes of that.
  void stop();

 private:
  enum class State { reading, ended, stopped, failed };

  void run();
  void end(State state);

  PromptReading& reading_;
  PromptEncoder encoder_;
  std::function<void(EncodedPrompt&)> settle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PlacedPrompt> ready_;  ///< not taken yet
  State state_ = State::reading;
  std::exception_ptr fault_;
  std::thread thread_;
};

}  // namespace tpinfer
