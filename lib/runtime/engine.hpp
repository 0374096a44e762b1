#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/parallel_for.hpp"
#include "job/sampling.hpp"
#include "output/run_result.hpp"
#include "runtime/sampler.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/transformer.hpp"

namespace tpinfer {

/// A prompt ready to run.
struct Request {
  std::int64_t prompt_index = 0;
  std::uint64_t id_hash = 0;  ///< of the prompt's id, for the draws
  std::vector<std::int32_t> token_ids;
  SamplingParams params;
  std::vector<std::vector<std::int32_t>> bad_words = {};  ///< each as ids
  std::int64_t most_new_tokens = 0;                       ///< under all limits
  FinishReason at_limit = FinishReason::length;           ///< why it ends at most_new_tokens
};

/// What all requests share.
struct EngineContext {
  std::vector<std::int32_t> eos_ids;
  std::vector<std::uint8_t> allowed_ids;  ///< [vocab] see SampleContext; empty: all
  std::int64_t vocab = 0;
  std::chrono::steady_clock::time_point start;  ///< times are seconds since then
};

struct EngineTimes {
  double sampling = 0, wait = 0, total = 0;  ///< seconds
};

struct EngineEvents {
  std::function<void(AnswerRow)> answer;                                     ///< finished, without text
  std::function<void(std::int64_t prompt_index, std::string error)> failed;  ///< that prompt's row fails
  std::function<void(std::int64_t prompt_index, PromptRow& scores)>
      scored;                                ///< prompt_logprobs and prompt_top_* are filled in
  std::function<void(const StepRow&)> step;  ///< after each step
};

/// Rank 0 of a group: schedules, broadcasts each step, samples from the gathered logits.
class Engine {
 public:
  Engine(Communicator& comm, Transformer& transformer, ParallelFor& parallel, const SchedulerLimits& limits,
         EngineContext context);
  ~Engine();

  /// Runs all requests; the others ranks must be in follow() meanwhile. Returns after they were told to stop.
  void run(std::vector<Request> requests, const EngineEvents& events);
  const EngineTimes& times() const noexcept { return times_; }

 private:
  struct Running;
  void enqueue(const Request& request, std::int64_t index);
  void take_logits(std::int64_t first, std::int64_t rows, const float* logits);
  void take_row(Running& running, const LogitRow& row, std::span<const float> logits) const;
  void after_step(const EngineEvents& events);
  void finish(Running& running, FinishReason reason, const EngineEvents& events);
  double now() const;

  Communicator& comm_;
  Transformer& transformer_;
  ParallelFor& parallel_;
  Scheduler scheduler_;
  EngineContext context_;
  std::vector<Running> running_;  ///< by Sequence::index
  std::vector<LogitRow> rows_;    ///< of the current step
  EngineTimes times_;
};

/// The other ranks: runs the steps that rank 0 broadcasts until it says stop; `after_step` is called after each.
void follow(Communicator& comm, Transformer& transformer, EngineTimes& times, const std::function<void()>& after_step);

}  // namespace tpinfer
