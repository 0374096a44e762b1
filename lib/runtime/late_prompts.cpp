#include "runtime/late_prompts.hpp"

#include "core/error.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostAtOnce = 4096;  // rows that the book takes between two steps: a few milliseconds

}  // namespace

LatePrompts::LatePrompts(const Job& job, const Preparation& prepared, const Log& log)
    : prepared_(prepared),
      log_(log),
      tail_(*prepared.more, encoding_terms(job, prepared), [room = CacheRoom(job, prepared)](EncodedPrompt& prompt) {
        if (room.holds(*prompt.request, prompt.row))
          prompt.row.content = content_hash(*prompt.request);
        else
          prompt.request.reset();
      }) {}

void LatePrompts::write_to(AnswerBook& book) {
  book_ = &book;
  book.expect_more(true);
}

std::vector<Request> LatePrompts::take(std::chrono::milliseconds patience) {
  std::vector<Request> requests;
  if (ended_ || fault_) return requests;
  if (known_.empty()) known_ = tail_.take(patience);
  for (std::size_t count = 0; count < kMostAtOnce && !known_.empty(); ++count, known_.pop_front())
    if (!add(known_.front(), requests)) return requests;
  if (known_.empty()) look_for_the_end();
  return requests;
}

bool LatePrompts::add(PlacedPrompt& placed, std::vector<Request>& requests) {
  try {
    prepared_.more->collector().take(placed, book_->prompts());
  } catch (const Error&) {
    fault_ = std::current_exception();
    return false;
  }
  auto& request = placed.prompt.request;
  book_->add(std::move(placed.prompt.row), request ? &*request : nullptr);
  if (!request) return true;
  answer_bytes_ += demand_of({&*request, 1}).answer_bytes;
  requests.push_back(std::move(*request));
  return true;
}

void LatePrompts::look_for_the_end() {
  try {
    if (!tail_.ended()) return;
    prepared_.more->finish(log_);
    prepared_.more->collector().forget();
    ended_ = true;
  } catch (...) {
    fault_ = std::current_exception();
    return;
  }
  book_->expect_more(false);
  tell();
}

void LatePrompts::tell() const {
  log_.info("all {} prompts have been read", book_->total());
  const RankMemoryPlan& mine = prepared_.memory.ranks[0];
  if (prepared_.device == Device::cpu && mine.total() + answer_bytes_ > mine.budget)
    log_.warning("rank 0 may need {} when the result is written, as the prompts are so many, but may use {}",
                 format_bytes_binary(mine.total() + answer_bytes_), format_bytes_binary(mine.budget));
}

void LatePrompts::check() const {
  if (fault_) std::rethrow_exception(fault_);
}

}  // namespace tpinfer
