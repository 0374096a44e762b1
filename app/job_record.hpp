#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/signals.hpp"
#include "backend/factory.hpp"
#include "runtime/answer_book.hpp"
#include "runtime/answer_store.hpp"
#include "runtime/engine.hpp"
#include "runtime/late_prompts.hpp"
#include "runtime/preparation.hpp"
#include "runtime/result_builder.hpp"

namespace tpinfer {

/// Rank 0's part of a run that lasts: what is left to do, the answers as they finish, the result file at the end.
class JobRecord {
 public:
  /// All must stay. `created`: when this attempt began.
  JobRecord(const Job& job, Preparation& prepared, KernelSet kernels, const std::string& created, SignalWatch& signals,
            const Log& log);

  /// Whether no earlier attempt can have left anything: then not all prompts need be known before the first runs.
  static bool begins_anew(const OutputJob& output);
  /// Takes out of the preparation what earlier attempts have finished; from here on no other job can have this output.
  /// Prompts that follow those of the preparation begin to be read.
  AnswerStore::Work open();
  /// The same for a run that must not write anything.
  void look();

  /// Before the first prompt runs, or when none has to.
  void begin(const RunFacts& facts);
  /// What the engine shall tell; `step` is called after each.
  EngineEvents events(std::function<void(const StepRow&)> step);
  /// When the job is to stop early. `elapsed`: seconds since the program began.
  StopPlan stop_plan(const StopSwitch& asked, double elapsed) const;
  const AnswerBook& book() const { return *book_; }
  /// The requests that are to run.
  RequestList requests() { return RequestList(std::move(prepared_.requests), late_ ? &*late_ : nullptr); }
  /// After the last prompt has run: reads no further. Throws what has kept prompts from being read; the journal is
  /// whole and synced then.
  void end_reading();

  /// The journal is whole and synced before the result file is written; it goes when that has everything and is
  /// durable. Reports to the log.
  void write(const RunFacts& facts, RunResult& result);
  /// What the program ends with.
  ExitCode code() const;

 private:
  void tell_resumed() const;

  const Job& job_;
  Preparation& prepared_;
  SignalWatch& signals_;
  const Log& log_;
  AnswerStore store_;
  AnswerStore::Work work_ = AnswerStore::Work::run;
  std::optional<AnswerBook> book_;
  std::optional<LatePrompts> late_;
};

}  // namespace tpinfer
