#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/signals.hpp"
#include "backend/factory.hpp"
#include "runtime/answer_book.hpp"
#include "runtime/answer_store.hpp"
#include "runtime/engine.hpp"
#include "runtime/preparation.hpp"
#include "runtime/result_builder.hpp"

namespace tpinfer {

/// Rank 0's part of a run that lasts: what is left to do, the answers as they finish, the result file at the end.
class JobRecord {
 public:
  /// All must stay. `created`: when this attempt began.
  JobRecord(const Job& job, Preparation& prepared, KernelSet kernels, const std::string& created, SignalWatch& signals,
            const Log& log);

  /// Takes out of the preparation what earlier attempts have finished; from here on no other job can have this output.
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
};

}  // namespace tpinfer
