// Microseconds of what the first rank does on the host for a decode step of sequences of about 1,000 tokens, medians:
// in one piece, and in two with the first while the step before runs. Alone, or under mpirun with the other ranks as
// receivers.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "comm/communicator.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/step_inputs.hpp"

namespace {

using namespace tpinfer;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTokens = 1000;
constexpr int kSteps = 200;

class Bench {
 public:
  Bench(Communicator& comm, std::int64_t sequences, bool ahead)
      : comm_(comm),
        sequences_(sequences),
        ahead_(ahead),
        scheduler_({.max_sequences = sequences, .max_rows = 8192, .blocks = sequences * 90}),
        inputs_(1 << 20) {
    for (std::int64_t s = 0; s < sequences; ++s) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t p = 0; p < kTokens; ++p)
        tokens.push_back(static_cast<std::int32_t>((p * 31 + s * 7919) % 30000));
      scheduler_.add({.index = s,
                      .tokens = std::move(tokens),
                      .prompt_tokens = kTokens,
                      .most_tokens = kTokens + 2 * kSteps,
                      .next_logit = kTokens - 1,
                      .blocks = {}});
    }
  }

  void run() {
    for (int decodes = 0; decodes < kSteps;) {
      counted_ = std::ssize(rows_) == sequences_;  // each one has had a token in the step before
      decodes += counted_ ? 1 : 0;
      const auto start = Clock::now();
      time("schedule", [&] { scheduler_.next(step_, rows_, &foreseen_); });
      send(step_);
      time("lay out", [&] { lay_out(step_); });
      note("all before the launch", start);
      foreseen_.ready = false;
      if (ahead_) look_ahead();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the device's turn
      counted_ = counted_ || std::ssize(rows_) == sequences_;
      time("append tokens", [&] {
        for (const LogitRow& row : rows_)
          scheduler_.append(row.sequence, static_cast<std::int32_t>(row.position % 30000));
      });
    }
    for (auto& [what, times] : times_) {
      std::ranges::sort(times);
      fmt::print("| {} | {} | {} | {:.1f} |\n", sequences_, ahead_ ? "two pieces" : "one piece", what,
                 times[times.size() / 2]);
    }
    message_.clear();
    comm_.broadcast(message_, 0, "the end");
  }

 private:
  void note(const char* what, Clock::time_point start) {
    if (counted_) times_[what].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  template <class Work>
  void time(const char* what, const Work& work) {
    const auto start = Clock::now();
    work();
    note(what, start);
  }

  void send(const Step& step) {
    if (comm_.size() == 1) return;
    time("encode", [&] { encode(step, message_); });
    time("broadcast", [&] { comm_.broadcast(message_, 0, "a step"); });
  }
  void lay_out(const Step& step) {
    if (step.part == StepPart::late) return inputs_.put_tokens(step.tokens);
    if (step.rows() == step.sequences())
      inputs_.fill(step, {.rows = (step.rows() + 7) / 8 * 8, .table_width = 2 * step.table_width});
  }
  void look_ahead() {
    const auto start = Clock::now();
    scheduler_.foresee(foreseen_);
    if (!foreseen_.ready) return;
    if (comm_.size() > 1) {
      encode(foreseen_.step, message_);
      comm_.broadcast(message_, 0, "the next step");
    }
    lay_out(foreseen_.step);
    note("beside the device", start);
  }

  Communicator& comm_;
  std::int64_t sequences_;
  bool ahead_;
  Scheduler scheduler_;
  StepInputs inputs_;
  Step step_;
  Foresight foreseen_;
  std::vector<LogitRow> rows_;
  std::vector<std::byte> message_;
  std::map<std::string, std::vector<double>> times_;
  bool counted_ = false;
};

}  // namespace

int main() {
  const MpiSession session;
  const auto comm = session.world(60);
  for (const std::int64_t sequences : {1, 16, 64, 256})
    for (const bool ahead : {false, true}) {
      if (comm->rank() == 0) {
        Bench(*comm, sequences, ahead).run();
        continue;
      }
      for (std::vector<std::byte> message(1); !message.empty();) comm->broadcast(message, 0, "a step");
    }
}
