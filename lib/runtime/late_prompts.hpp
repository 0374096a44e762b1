#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <vector>

#include "core/log.hpp"
#include "job/job.hpp"
#include "runtime/answer_book.hpp"
#include "runtime/preparation.hpp"
#include "runtime/prompt_tail.hpp"
#include "runtime/request.hpp"

namespace tpinfer {

/// Rank 0: the prompts that follow the first part of a job, as they become known. Each gets its row in the book, and a
/// request where it can run.
class LatePrompts final : public LateRequests {
 public:
  /// Begins to read. `job` and `prepared`, whose plan is made, must stay where they are; prepared.more is not null.
  LatePrompts(const Job& job, const Preparation& prepared, const Log& log);

  /// Before the first take(). `book` has the rows of the first part and must stay.
  void write_to(AnswerBook& book);

  std::vector<Request> take(std::chrono::milliseconds patience) override;
  bool ended() const override { return ended_; }
  bool failed() const override { return fault_ != nullptr; }

  /// Reads no further.
  void stop() { tail_.stop(); }
  /// After a failure: throws what it was, an Error(input) most often.
  void check() const;

 private:
  bool add(PlacedPrompt& placed, std::vector<Request>& requests);
  void look_for_the_end();
  void tell() const;

  const Preparation& prepared_;
  Log log_;
  AnswerBook* book_ = nullptr;
  std::deque<PlacedPrompt> known_;  ///< that the book does not have yet
  std::uint64_t answer_bytes_ = 0;  ///< see PromptDemand; the plan does not have them
  bool ended_ = false;
  std::exception_ptr fault_;
  PromptTail tail_;  ///< last: its thread ends before what it uses
};

}  // namespace tpinfer
