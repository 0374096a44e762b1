#include "output/journal.hpp"

#include "core/bytes.hpp"
#include "output/journal_rows.hpp"
#include "output/row_codec.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kUsualBytes = 1024;  // of a record

}  // namespace

Journal::Journal(JournalFile file, const FlushRule& rule, std::uint32_t next_prompt)
    : file_(std::move(file)), rule_(rule), next_prompt_(next_prompt) {}

ByteWriter Journal::payload() {
  payload_.reserve(kUsualBytes);
  return ByteWriter(std::move(payload_));
}

void Journal::add(JournalKind kind, ByteWriter written) {
  payload_ = written.take();
  frame_journal_record(kind, payload_, file_.size(), record_);
  file_.append(record_);
}

void Journal::begin(const JournalHead& head) {
  file_.cut(0);
  file_.append(journal_preamble());
  ByteWriter to = payload();
  put(to, head);
  add(JournalKind::head, std::move(to));
  sync();
  file_.sync_folder();
}

void Journal::begin_attempt(const JournalAttempt& attempt, const RunResult& about) {
  ByteWriter to = payload();
  put(to, attempt);
  put_about(to, about);
  add(JournalKind::attempt, std::move(to));
  sync();
}

void Journal::end_attempt(const JournalAttempt& attempt) {
  ByteWriter to = payload();
  put(to, attempt);
  add(JournalKind::end, std::move(to));
  sync();
}

std::uint32_t Journal::add_prompt(const PromptRow& prompt, std::int64_t samples) {
  ByteWriter to = payload();
  to.put(next_prompt_);
  to.put(samples);
  put_prompt(to, prompt);
  add(JournalKind::prompt, std::move(to));
  return next_prompt_++;
}

void Journal::add_answer(std::uint32_t prompt, const AnswerRow& answer) {
  ByteWriter to = payload();
  to.put(prompt);
  put(to, answer);
  add(JournalKind::answer, std::move(to));
  count();
}

void Journal::add_scores(std::uint32_t prompt, const PromptRow& scores) {
  ByteWriter to = payload();
  to.put(prompt);
  put_scores(to, scores);
  add(JournalKind::scores, std::move(to));
}

void Journal::add_failed(std::uint32_t prompt, const std::string& error) {
  ByteWriter to = payload();
  to.put(prompt);
  to.put(std::string_view(error));
  add(JournalKind::failed, std::move(to));
  count();
}

void Journal::count() {
  if (unsynced_++ == 0) since_ = std::chrono::steady_clock::now();
  if (unsynced_ >= rule_.records) sync();
}

void Journal::tick() {
  if (unsynced_ == 0) return;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
  if (waited.count() >= rule_.seconds) sync();
}

void Journal::sync() {
  file_.sync();
  unsynced_ = 0;
  ++syncs_;
}

}  // namespace tpinfer
