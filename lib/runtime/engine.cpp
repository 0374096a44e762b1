#include "runtime/engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace tpinfer {

/// A request on its way, and what came of it.
struct Engine::Running {
  Request request;
  std::vector<std::int32_t> tokens;  ///< prompt and answer
  AnswerRow answer;
  PromptRow scores;
  std::string error;
  std::int32_t next_token = -1;  ///< chosen in this step
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  ///< of the chosen token's row
};

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::int64_t prompt_top_k(const SamplingParams& params) { return params.prompt_logprobs.value_or(0); }

bool contains(std::span<const std::int32_t> ids, std::int32_t id) { return std::ranges::find(ids, id) != ids.end(); }

bool is_stop(const Request& request, std::span<const std::int32_t> eos_ids, std::int32_t id) {
  if (!request.params.ignore_eos && contains(eos_ids, id)) return true;
  return std::ranges::find(request.params.stop_token_ids, static_cast<std::int64_t>(id)) !=
         request.params.stop_token_ids.end();
}

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

Engine::Engine(Communicator& comm, Transformer& transformer, ParallelFor& parallel, const SchedulerLimits& limits,
               EngineContext context)
    : comm_(comm), transformer_(transformer), parallel_(parallel), scheduler_(limits), context_(std::move(context)) {}

Engine::~Engine() = default;

double Engine::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - context_.start).count();
}

void Engine::enqueue(const Request& request, std::int64_t index) {
  Running& running = running_[static_cast<std::size_t>(index)];
  running.request = request;
  running.tokens = request.token_ids;
  running.answer.prompt_index = request.prompt_index;
  running.answer.top_k = static_cast<std::int32_t>(request.params.logprobs.value_or(0));
  running.answer.t_queued = now();
  const auto prompt = static_cast<std::int64_t>(request.token_ids.size());
  if (request.params.prompt_logprobs) {
    const auto k = static_cast<std::size_t>(prompt_top_k(request.params));
    running.scores.prompt_top_k = static_cast<std::int32_t>(k);
    running.scores.prompt_logprobs.assign(static_cast<std::size_t>(prompt), kNaN);
    running.scores.prompt_top_ids.assign(static_cast<std::size_t>(prompt) * k, -1);
    running.scores.prompt_top_logprobs.assign(static_cast<std::size_t>(prompt) * k, kNaN);
  }
  scheduler_.add({.index = index,
                  .tokens = request.token_ids,
                  .prompt_tokens = prompt,
                  .most_tokens = prompt + request.most_new_tokens,
                  .first_logit = request.params.prompt_logprobs ? 0 : prompt - 1,
                  .computed = 0,
                  .blocks = {}});
}

// Logits of one position: they score the prompt's next token, or choose a new one.
void Engine::take_row(Running& running, const LogitRow& row, std::span<const float> logits) const {
  const SamplingParams& params = running.request.params;
  const auto prompt = static_cast<std::int64_t>(running.request.token_ids.size());
  const RowStatistics statistics = row_statistics(logits);
  if (!statistics.finite) {
    running.error = fmt::format(
        "non-finite logits at position {}: the weights hold NaN or infinity, or activations overflow "
        "(model.verify_weights: finite names the tensor)",
        row.position);
    return;
  }
  const auto scored = static_cast<std::size_t>(row.position) + 1;
  if (row.position + 1 < prompt) {
    PromptRow& scores = running.scores;
    scores.prompt_logprobs[scored] = logprob_of(logits, statistics, running.request.token_ids[scored]);
    const auto top = top_logprobs(logits, statistics, scores.prompt_top_k);
    for (std::size_t i = 0; i < top.size(); ++i) {
      const std::size_t at = scored * static_cast<std::size_t>(scores.prompt_top_k) + i;
      scores.prompt_top_ids[at] = top[i].id;
      scores.prompt_top_logprobs[at] = top[i].logprob;
    }
    return;
  }
  const auto new_tokens = static_cast<std::int64_t>(running.answer.token_ids.size());
  if (new_tokens >= running.request.most_new_tokens) return;  // a job that only scores prompts
  const SampleContext context{.eos_ids = context_.eos_ids,
                              .allowed_ids = context_.allowed_ids,
                              .tokens = running.tokens,
                              .prompt_tokens = prompt,
                              .bad_words = running.request.bad_words,
                              .draw = {.seed = static_cast<std::uint64_t>(params.seed),
                                       .prompt = running.request.id_hash,
                                       .sample = 0,
                                       .position = static_cast<std::uint32_t>(new_tokens)}};
  running.next_token = sample_token(logits, params, context);
  if (running.next_token < 0) {
    running.error =
        fmt::format("no token may follow position {}: all that have a finite logit are banned", row.position);
    return;
  }
  running.chosen = {running.next_token, logprob_of(logits, statistics, running.next_token)};
  running.top = top_logprobs(logits, statistics, running.answer.top_k);
}

void Engine::take_logits(std::int64_t first, std::int64_t rows, const float* logits) {
  const Stopwatch watch(times_.sampling);
  parallel_.run(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const LogitRow& row = rows_[static_cast<std::size_t>(first + i)];
      take_row(running_[static_cast<std::size_t>(row.sequence)], row,
               {logits + i * context_.vocab, static_cast<std::size_t>(context_.vocab)});
    }
  });
}

void Engine::finish(Running& running, FinishReason reason, const EngineEvents& events) {
  running.answer.finish_reason = reason;
  running.answer.t_finished = now();
  if (running.request.params.prompt_logprobs) events.scored(running.answer.prompt_index, running.scores);
  events.answer(std::move(running.answer));
  running = {};
}

void Engine::after_step(const EngineEvents& events) {
  for (const LogitRow& row : rows_) {
    Running& running = running_[static_cast<std::size_t>(row.sequence)];
    if (!running.error.empty()) {
      const bool last = row.position + 1 >= static_cast<std::int64_t>(running.request.token_ids.size());
      if (!last) continue;  // a prompt's rows may span several steps
      scheduler_.finish(row.sequence);
      events.failed(running.request.prompt_index, running.error);
      running = {};
      continue;
    }
    if (row.position + 1 < static_cast<std::int64_t>(running.request.token_ids.size())) continue;
    if (running.next_token < 0) {  // nothing was to be generated
      scheduler_.finish(row.sequence);
      finish(running, FinishReason::length, events);
      continue;
    }
    AnswerRow& answer = running.answer;
    if (answer.token_ids.empty()) answer.t_first_token = now();
    answer.token_ids.push_back(running.chosen.id);
    running.tokens.push_back(running.chosen.id);
    answer.logprobs.push_back(running.chosen.logprob);
    answer.cumulative_logprob += static_cast<double>(running.chosen.logprob);
    for (const TokenLogprob& entry : running.top) {
      answer.top_ids.push_back(entry.id);
      answer.top_logprobs.push_back(entry.logprob);
    }
    running.next_token = -1;
    const bool stop = is_stop(running.request, context_.eos_ids, running.chosen.id);
    if (stop || static_cast<std::int64_t>(answer.token_ids.size()) >= running.request.most_new_tokens) {
      scheduler_.finish(row.sequence);
      finish(running, stop ? FinishReason::stop : running.request.at_limit, events);
    } else {
      scheduler_.append(row.sequence, running.chosen.id);
    }
  }
}

void Engine::run(std::vector<Request> requests, const EngineEvents& events) {
  const Stopwatch watch(times_.total);
  running_.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) enqueue(requests[i], static_cast<std::int64_t>(i));
  Step step;
  std::vector<std::byte> message;
  while (scheduler_.next(step, rows_)) {
    encode(step, message);
    comm_.broadcast(message, 0, "a step");
    transformer_.forward(
        step, [this](std::int64_t first, std::int64_t rows, const float* logits) { take_logits(first, rows, logits); });
    const StepRow row{.t = now(),
                      .sequences = static_cast<std::int32_t>(step.sequences()),
                      .tokens = static_cast<std::int32_t>(step.rows()),
                      .kv_blocks_used = static_cast<std::int32_t>(scheduler_.blocks_used()),
                      .waiting = static_cast<std::int32_t>(scheduler_.waiting())};
    after_step(events);
    events.step(row);
  }
  step.clear();
  step.stop = true;
  encode(step, message);
  comm_.broadcast(message, 0, "the last step");
}

void follow(Communicator& comm, Transformer& transformer, EngineTimes& times, const std::function<void()>& after_step) {
  const Stopwatch watch(times.total);
  Step step;
  std::vector<std::byte> message;
  for (;;) {
    {
      const Stopwatch waiting(times.wait);
      comm.broadcast(message, 0, "a step");
    }
    decode_step(message, step);
    if (step.stop) return;
    transformer.forward(step, {});
    after_step();
  }
}

}  // namespace tpinfer
