#include "app/job_record.hpp"

#include <chrono>

#include "app/environment.hpp"
#include "app/jsonl_copy.hpp"
#include "app/run_report.hpp"
#include "output/result_writer.hpp"
#include "runtime/run_identity.hpp"
#include "runtime/time_limit.hpp"

namespace tpinfer {
JobRecord::JobRecord(const Job& job, Preparation& prepared, KernelSet kernels, const std::string& created,
                     SignalWatch& signals, const Log& log)
    : job_(job),
      prepared_(prepared),
      signals_(signals),
      log_(log),
      store_(job.output, identity_of(job, prepared, kernels), created, log) {}

void JobRecord::tell_resumed() const {
  if (const ResumeCounts& old = store_.resumed(); old.answers > 0 || old.prompts > 0)
    log_.info("{} of {} prompts have finished before, {} answers are taken over", old.prompts, prepared_.prompts.size(),
              old.answers);
}

bool JobRecord::begins_anew(const OutputJob& output) {
  if (output.if_exists != IfExists::resume) return true;
  return !output_exists(output.file) && !journal_exists(output.file);
}

AnswerStore::Work JobRecord::open() {
  check_jsonl_place(job_);
  work_ = store_.open(prepared_.prompts, prepared_.requests, prepared_.more != nullptr);
  if (prepared_.more) late_.emplace(job_, prepared_, log_);
  if (work_ != AnswerStore::Work::nothing) signals_.sync_on_end(store_.journal_fd());
  tell_resumed();
  return work_;
}

void JobRecord::look() {
  check_jsonl_place(job_);
  store_.look(prepared_.prompts, prepared_.requests);
  tell_resumed();
}

void JobRecord::begin(const RunFacts& facts) {
  if (prepared_.tokenizer) prepared_.context.tokenizer = &*prepared_.tokenizer;
  book_.emplace(std::move(prepared_.prompts), prepared_.requests, prepared_.context.tokenizer, store_);
  if (work_ == AnswerStore::Work::nothing)
    return log_.info("nothing to do: {} has the answers of all prompts", job_.output.file);
  RunResult about;
  describe_run(job_, prepared_, facts, about);
  store_.begin(about, book_->prompts());
  if (late_) late_->write_to(*book_);
}

void JobRecord::end_reading() {
  if (!late_) return;
  late_->stop();
  if (!late_->failed()) return;
  store_.end(utc_now(), "stopped", static_cast<std::int64_t>(book_->ended()));
  log_.info("{} prompts have been answered; when the prompts are mended the same command goes on", book_->done());
  late_->check();
}

EngineEvents JobRecord::events(std::function<void(const StepRow&)> step) {
  return {.answer = [this](AnswerRow row) { book_->take(std::move(row)); },
          .failed = [this](std::int64_t prompt, const std::string& error) { book_->fail(prompt, error); },
          .scored = [this](std::int64_t prompt, const PromptRow& scores) { book_->take_scores(prompt, scores); },
          .step =
              [this, step = std::move(step)](const StepRow& row) {
                store_.tick();
                step(row);
              }};
}

StopPlan JobRecord::stop_plan(const StopSwitch& asked, double elapsed) const {
  const double margin = stop_margin(job_.run, log_);
  const auto left = seconds_left(job_.run.time_limit, elapsed, environment, log_);
  if (!left) return {asked, std::nullopt, margin};
  log_.info("{:.0f} s are left until the time limit; no prompt begins in the last {:.0f} s", *left, margin);
  const std::chrono::duration<double> seconds(*left);
  return {asked, StopPlan::Clock::now() + std::chrono::duration_cast<StopPlan::Clock::duration>(seconds), margin};
}

void JobRecord::write(const RunFacts& facts, RunResult& result) {
  if (work_ == AnswerStore::Work::nothing) {
    if (mend_jsonl(job_)) log_.info("{} is made of it", *job_.output.jsonl);
    return;
  }
  const bool complete = book_->is_complete();
  store_.end(utc_now(), complete ? "finished" : "stopped", static_cast<std::int64_t>(book_->ended()));
  describe_run(job_, prepared_, facts, result);
  result.state = complete ? RunState::complete : RunState::partial;
  result.prompts = book_->give();
  store_.collect(result);
  write_result_file(job_.output.file, result);
  write_jsonl(job_);
  signals_.sync_on_end(-1);
  if (complete) store_.remove();
  report_end(log_, result, *book_, job_.output.file);
}

ExitCode JobRecord::code() const {
  if (!book_->is_complete()) return ExitCode::stopped_early;
  return book_->failed() > 0 ? ExitCode::prompts_failed : ExitCode::ok;
}

}  // namespace tpinfer
