#include "runtime/engine.hpp"

#include <algorithm>

#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

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
               const AnsweringContext& context, std::int64_t vocab, std::chrono::steady_clock::time_point start)
    : comm_(comm),
      transformer_(transformer),
      parallel_(parallel),
      scheduler_(limits),
      max_sequences_(limits.max_sequences),
      context_(context),
      vocab_(vocab),
      start_(start),
      shared_(transformer.communicator(), parallel, vocab, context.allowed_ids) {}

double Engine::now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

void Engine::enqueue(std::shared_ptr<const Request> request, std::int32_t sample) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::int64_t>(answerings_.size()));
    answerings_.emplace_back();
  }
  const std::int64_t index = free_.back();
  free_.pop_back();
  auto answering = std::make_unique<Answering>(std::move(request), sample, context_, now());
  const Request& r = answering->request();
  const auto prompt = static_cast<std::int64_t>(r.token_ids.size());
  scheduler_.add({.index = index,
                  .tokens = r.token_ids,
                  .prompt_tokens = prompt,
                  .most_tokens = r.most_tokens(),
                  .next_logit = answering->scores_prompt() ? 0 : prompt - 1,
                  .prompt = r.prompt_index,
                  .blocks = {}});
  answerings_[static_cast<std::size_t>(index)] = std::move(answering);
}

void Engine::refill(RequestSource& source) {
  const std::int64_t wanted = max_sequences_ - scheduler_.running() - scheduler_.waiting() + source.ahead();
  if (wanted <= 0 || source.exhausted()) return;
  for (Request& request : source.take(wanted)) {
    const auto shared = std::make_shared<const Request>(std::move(request));
    for (std::int32_t sample = 0; sample < shared->params->n; ++sample)
      if (!shared->is_finished(sample)) enqueue(shared, sample);
  }
}

void Engine::drop_waiting() {
  for (const std::int64_t sequence : scheduler_.drop_waiting()) {
    answerings_[static_cast<std::size_t>(sequence)].reset();
    free_.push_back(sequence);
  }
}

void Engine::take_logits(const Step& step, std::int64_t first, std::int64_t rows, const float* logits) {
  const Stopwatch watch(times_.sampling);
  if (step.shared()) return shared_.do_rows(step, first, rows, logits);
  scratch_.resize(static_cast<std::size_t>(parallel_.threads()));
  each_row(parallel_, rows, [&](std::int64_t row, std::size_t thread) {
    const auto i = static_cast<std::size_t>(first + row);
    do_row(task(rows_[i]), {logits + row * vocab_, static_cast<std::size_t>(vocab_)}, scratch_[thread], outcomes_[i]);
  });
}

void Engine::collect(const Step& step, std::int64_t first, std::span<const std::int64_t> begins) {
  const Stopwatch watch(times_.sampling);
  shared_.collect(step, first, begins, outcomes_);
}

// The outcomes' places, and the wishes of a step that is sampled by all ranks.
void Engine::prepare(Step& step) {
  if (outcomes_.size() < rows_.size()) outcomes_.resize(rows_.size());
  if (!shared_.may_share(std::ssize(rows_), share_from_)) return;
  const Stopwatch watch(times_.sampling);
  tasks_.clear();
  for (const LogitRow& row : rows_) tasks_.push_back(task(row));
  shared_.prepare(tasks_, step);
}

RowTask Engine::task(const LogitRow& row) const {
  if (row.sequence < 0) return {};
  const Answering& answering = *answerings_[static_cast<std::size_t>(row.sequence)];
  return answering.task(row.position, scheduler_.tokens(row.sequence));
}

bool Engine::take_on_device(RowChooser& chooser, std::int64_t first, const Tensor& logits) {
  {
    const Stopwatch watch(times_.sampling);
    tasks_.clear();
    for (std::int64_t i = 0; i < logits.rows; ++i) tasks_.push_back(task(rows_[static_cast<std::size_t>(first + i)]));
    if (!device_rows_.prepare(tasks_, vocab_)) return false;
  }
  device_rows_.start(chooser, logits);
  if (first + logits.rows == std::ssize(rows_)) look_ahead();
  device_rows_.finish(chooser, std::span(outcomes_).subspan(static_cast<std::size_t>(first)));
  return true;
}

// While the device works on the last rows of a step.
void Engine::look_ahead() {
  if (!ahead_) return;
  scheduler_.foresee(foresight_);
  if (!foresight_.ready) return;
  foresight_.fewest = transformer_.fewest_rows(foresight_.step);
  send(foresight_.step, "the next step");
  transformer_.prepare(foresight_.step);
}

void Engine::send(const Step& step, std::string_view what) {
  if (comm_.size() == 1) return;
  encode(step, message_);
  comm_.broadcast(message_, 0, what);
}

void Engine::end(std::int64_t sequence, Answering::State state, const EngineEvents& events) {
  scheduler_.finish(sequence);
  const std::unique_ptr<Answering> done = std::move(answerings_[static_cast<std::size_t>(sequence)]);
  free_.push_back(sequence);
  if (state == Answering::State::failed) return events.failed(done->request().prompt_index, done->error);
  if (done->scores_prompt()) events.scored(done->request().prompt_index, done->scores);
  events.answer(std::move(done->answer));
}

void Engine::after_step(const EngineEvents& events) {
  const double time = now();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const LogitRow& row = rows_[i];
    if (row.sequence < 0) continue;
    Answering& answering = *answerings_[static_cast<std::size_t>(row.sequence)];
    const Answering::State state = answering.take(row.position, outcomes_[i], time);
    if (state != Answering::State::going_on)
      end(row.sequence, state, events);
    else if (outcomes_[i].token.id >= 0 && !answering.answer.token_ids.empty())
      scheduler_.append(row.sequence, outcomes_[i].token.id);
  }
}

StepRow Engine::step_row() const {
  const bool late = step_.part == StepPart::late;
  const auto rows = late ? std::ranges::count_if(step_.tokens, [](std::int32_t token) { return token >= 0; }) : 0;
  return {.t = now(),
          .sequences = checked_cast<std::int32_t>(late ? rows : step_.sequences()),
          .tokens = checked_cast<std::int32_t>(late ? rows : step_.rows()),
          .kv_blocks_used = checked_cast<std::int32_t>(scheduler_.blocks_used()),
          .waiting = checked_cast<std::int32_t>(scheduler_.waiting()),
          .preemptions = scheduler_.counts().preemptions,
          .shared_tokens = scheduler_.counts().shared_tokens};
}

// While there is nothing to do: steps without rows, so that the other ranks do not take this one for lost and can tell
// it of signals.
void Engine::idle(const EngineEvents& events) {
  const auto time = std::chrono::steady_clock::now();
  if (time - last_step_ < kIdleStep) return;
  last_step_ = time;
  step_.clear();
  send(step_, "a step");
  events.step(step_row());
}

// -> false when there will be no more.
bool Engine::run_step(RequestSource& source, const EngineEvents& events) {
  const StopPhase phase = source.phase();
  if (phase != StopPhase::go) drop_waiting();
  if (phase == StopPhase::leave) return false;
  refill(source);
  const bool found = scheduler_.next(step_, rows_, &foresight_);
  foresight_.ready = false;
  if (!found) {
    if (source.exhausted()) return false;
    source.wait();
    idle(events);
    return true;
  }
  prepare(step_);
  last_step_ = std::chrono::steady_clock::now();
  send(step_, "a step");
  ++times_.steps;
  times_.prepared += step_.part == StepPart::late ? 1 : 0;
  transformer_.forward(step_, [&](std::int64_t first, std::int64_t rows, const float* logits) {
    take_logits(step_, first, rows, logits);
  });
  const StepRow row = step_row();
  after_step(events);
  events.step(row);
  return true;
}

void Engine::run(RequestSource& source, const EngineEvents& events) {
  const Stopwatch watch(times_.total);
  transformer_.after_share = [this](std::int64_t first, std::span<const std::int64_t> begins) {
    collect(step_, first, begins);
  };
  transformer_.on_device = [this](RowChooser& chooser, std::int64_t first, const Tensor& logits) {
    return take_on_device(chooser, first, logits);
  };
  while (run_step(source, events)) {
  }
  step_.clear();
  step_.stop = true;
  send(step_, "the last step");
  transformer_.on_device = {};
  transformer_.after_share = {};
}

void follow(Communicator& comm, Transformer& transformer, ParallelFor& parallel, std::span<const std::uint8_t> known,
            EngineTimes& times, const std::function<void()>& after_step) {
  const Stopwatch watch(times.total);
  Step step;
  SharedSampling sampling(transformer.communicator(), parallel, transformer.vocab(), known);
  transformer.after_share = [&](std::int64_t first, std::span<const std::int64_t> begins) {
    const Stopwatch sampled(times.sampling);
    sampling.collect(step, first, begins, {});
  };
  const LogitSink sink = [&](std::int64_t first, std::int64_t rows, const float* logits) {
    const Stopwatch sampled(times.sampling);
    sampling.do_rows(step, first, rows, logits);
  };
  std::vector<std::byte> message;
  for (;;) {
    {
      const Stopwatch waiting(times.wait);
      comm.broadcast(message, 0, "a step");
    }
    decode_step(message, step);
    if (step.stop) break;
    if (step.part == StepPart::early) {
      transformer.prepare(step);
      continue;
    }
    if (step.rows() > 0) transformer.forward(step, sink);
    after_step();
  }
  transformer.after_share = {};
}

}  // namespace tpinfer
