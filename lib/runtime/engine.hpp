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
#include "runtime/shared_sampling.hpp"
#include "runtime/transformer.hpp"

namespace tpinfer {

struct EngineTimes {
  double sampling = 0, wait = 0, total = 0;  ///< seconds
  std::int64_t steps = 0, prepared = 0;      ///< of the first rank: all, and those prepared while the one before ran
};

struct EngineEvents {
  std::function<void(AnswerRow)> answer;                                     ///< finished, without text
  std::function<void(std::int64_t prompt_index, std::string error)> failed;  ///< one sample of that prompt has failed
  std::function<void(std::int64_t prompt_index, PromptRow& scores)>
      scored;                                ///< prompt_logprobs and prompt_top_* are filled in
  std::function<void(const StepRow&)> step;  ///< after each step
};

/// The first rank of a group: schedules, broadcasts each step, samples from the gathered logits, with the others' help
/// where that pays.
class Engine {
 public:
  /// Times are seconds since `start`. `context` must stay.
  Engine(Communicator& comm, Transformer& transformer, ParallelFor& parallel, const SchedulerLimits& limits,
         const AnsweringContext& context, std::int64_t vocab, std::chrono::steady_clock::time_point start);

  /// Answers all requests of the source; the other ranks must be in follow() meanwhile. Returns after they were told to
  /// stop.
  void run(RequestSource& source, const EngineEvents& events);
  /// Logits of a step from which on its sampling is divided over the ranks.
  void share_from(std::int64_t logits) noexcept { share_from_ = logits; }
  /// Whether a step's inputs are prepared while the one before it runs, on a device that runs beside the host.
  void prepare_ahead(bool wanted) noexcept { ahead_ = wanted; }
  const EngineTimes& times() const noexcept { return times_; }

 private:
  static constexpr std::chrono::milliseconds kIdleStep{100};
  static constexpr std::int64_t kShareFrom = 1 << 19;  ///< below, two more collectives take longer than is saved

  void refill(RequestSource& source);
  void enqueue(std::shared_ptr<const Request> request, std::int32_t sample);
  void drop_waiting();
  void prepare(Step& step);
  void look_ahead();
  void send(const Step& step, std::string_view what);
  void idle(const EngineEvents& events);
  bool run_step(RequestSource& source, const EngineEvents& events);
  void take_logits(const Step& step, std::int64_t first, std::int64_t rows, const float* logits);
  bool take_on_device(RowChooser& chooser, std::int64_t first, const Tensor& logits);
  void collect(const Step& step, std::int64_t first, std::span<const std::int64_t> begins);
  RowTask task(const LogitRow& row) const;
  void after_step(const EngineEvents& events);
  void end(std::int64_t sequence, Answering::State state, const EngineEvents& events);
  StepRow step_row() const;
  double now() const;

  Communicator& comm_;
  Transformer& transformer_;
  ParallelFor& parallel_;
  Scheduler scheduler_;
  std::int64_t max_sequences_;
  const AnsweringContext& context_;
  std::int64_t vocab_;
  std::chrono::steady_clock::time_point start_, last_step_;
  std::vector<std::unique_ptr<Answering>> answerings_;  ///< by Sequence::index; null: free
  std::vector<std::int64_t> free_;                      ///< of these
  Step step_;                                           ///< the current one
  std::vector<LogitRow> rows_;                          ///< of it
  Foresight foresight_;                                 ///< of the next one
  bool ahead_ = true;
  std::vector<std::byte> message_;
  std::vector<RowOutcome> outcomes_;      ///< [rows_]
  std::vector<SamplingScratch> scratch_;  ///< [threads]
  std::vector<RowTask> tasks_;            ///< of rows for a device or other ranks
  SharedSampling shared_;
  std::int64_t share_from_ = kShareFrom;
  DeviceRows device_rows_;
  EngineTimes times_;
};

/// The other ranks: runs the steps that the first rank broadcasts until it says stop, and samples its share of their
/// rows (`known` as SampleContext::allowed_ids); `after_step` is called after each.
void follow(Communicator& comm, Transformer& transformer, ParallelFor& parallel, std::span<const std::uint8_t> known,
            EngineTimes& times, const std::function<void()>& after_step);

}  // namespace tpinfer
