#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "core/parallel_for.hpp"
#include "output/run_result.hpp"
#include "runtime/answering.hpp"
#include "runtime/device_rows.hpp"
#include "runtime/request.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/transformer.hpp"

namespace tpinfer {

struct EngineTimes {
  double sampling = 0, wait = 0, total = 0;  ///< seconds
};

struct EngineEvents {
  std::function<void(AnswerRow)> answer;                                     ///< finished, without text
  std::function<void(std::int64_t prompt_index, std::string error)> failed;  ///< one sample of that prompt has failed
  std::function<void(std::int64_t prompt_index, PromptRow& scores)>
      scored;                                ///< prompt_logprobs and prompt_top_* are filled in
  std::function<void(const StepRow&)> step;  ///< after each step
};

/// The first rank of a group: schedules, broadcasts each step, samples from the gathered logits.
class Engine {
 public:
  /// Times are seconds since `start`. `context` must stay.
  Engine(Communicator& comm, Transformer& transformer, ParallelFor& parallel, const SchedulerLimits& limits,
         const AnsweringContext& context, std::int64_t vocab, std::chrono::steady_clock::time_point start);

  /// Answers all requests of the source; the other ranks must be in follow() meanwhile. Returns after they were told to
  /// stop.
  void run(RequestSource& source, const EngineEvents& events);
  const EngineTimes& times() const noexcept { return times_; }

 private:
  void refill(RequestSource& source);
  void enqueue(std::shared_ptr<const Request> request, std::int32_t sample);
  void drop_waiting();
  void take_logits(std::int64_t first, std::int64_t rows, const float* logits);
  bool take_on_device(RowChooser& chooser, std::int64_t first, const Tensor& logits);
  RowTask task(const LogitRow& row) const;
  void after_step(const EngineEvents& events);
  void end(std::int64_t sequence, Answering::State state, const EngineEvents& events);
  StepRow step_row(const Step& step) const;
  double now() const;

  Communicator& comm_;
  Transformer& transformer_;
  ParallelFor& parallel_;
  Scheduler scheduler_;
  std::int64_t max_sequences_;
  const AnsweringContext& context_;
  std::int64_t vocab_;
  std::chrono::steady_clock::time_point start_;
  std::vector<std::unique_ptr<Answering>> answerings_;  ///< by Sequence::index; null: free
  std::vector<std::int64_t> free_;                      ///< of these
  std::vector<LogitRow> rows_;                          ///< of the current step
  std::vector<RowOutcome> outcomes_;                    ///< [rows_]
  std::vector<SamplingScratch> scratch_;                ///< [threads]
  std::vector<RowTask> tasks_;                          ///< of a block of rows on the device
  DeviceRows device_rows_;
  EngineTimes times_;
};

/// The other ranks: runs the steps that the first rank broadcasts until it says stop; `after_step` is called after
/// each.
void follow(Communicator& comm, Transformer& transformer, EngineTimes& times, const std::function<void()>& after_step);

}  // namespace tpinfer
