#include "runtime/replicas.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

#include "core/checked_cast.hpp"
#include "core/error.hpp"
#include "output/row_codec.hpp"

namespace tpinfer {
namespace {

using Clock = std::chrono::steady_clock;

// What a message is about; the first byte of each.
enum class Topic : std::uint64_t { ask, answer, failed, scored, step, done, requests, end, stop, close, leave };

constexpr std::chrono::milliseconds kTellEvery{100};
constexpr std::chrono::microseconds kNap{200};
constexpr std::size_t kUsualBytes = 256;  // of a message

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

ByteWriter about(Topic topic) {
  std::vector<std::byte> bytes;
  bytes.reserve(kUsualBytes);
  ByteWriter message(std::move(bytes));
  message.put(topic);
  return message;
}

// -> whether the letter is a rank's wish to end the job
bool hear_stop(const Letter& letter, StopSwitch& asked) {
  ByteReader message(letter.bytes);
  if (message.get<Topic>() != Topic::stop) return false;
  asked.ask(message.get<StopSwitch::Asked>());
  return true;
}

}  // namespace

void StopTeller::tell() {
  const StopSwitch::Asked now = asked_.asked();
  if (now == told_ || !mail_) return;
  told_ = now;
  ByteWriter message = about(Topic::stop);
  message.put(now);
  mail_->send(0, message.take());
}

StopPhase StoppableList::phase() {
  while (auto letter = mail_ ? mail_->receive() : std::nullopt) hear_stop(*letter, asked_);
  list_.look();
  const StopPhase phase = list_.failed() ? StopPhase::leave : stop_.phase();
  if (phase != StopPhase::go) list_.close();
  return phase;
}

ReplicaLayout lay_out_replicas(const std::vector<std::int64_t>& hosts, int tensor) {
  if (tensor < 1 || hosts.size() % static_cast<std::size_t>(tensor) != 0)
    throw Error(ExitCode::usage, fmt::format("{} ranks cannot be divided into replicas of {}", hosts.size(), tensor));
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; });
  ReplicaLayout layout{.replica = std::vector<int>(hosts.size()), .leaders = {}};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto group = i / static_cast<std::size_t>(tensor);
    layout.replica[static_cast<std::size_t>(order[i])] = static_cast<int>(group);
    if (group == layout.leaders.size()) layout.leaders.push_back(order[i]);
    layout.leaders[group] = std::min(layout.leaders[group], order[i]);
  }
  return layout;
}

std::vector<int> ReplicaLayout::places() const {
  std::vector<int> out;
  std::vector<int> next(leaders.size(), 0);
  for (const int group : replica) out.push_back(next[static_cast<std::size_t>(group)]++);
  return out;
}

Dealer::Dealer(Mailbox& mail, RequestList requests, const std::vector<int>& leaders, std::int64_t ahead,
               double patience, StopPlan& stop, StopSwitch& asked, const EngineEvents& events)
    : mail_(mail),
      list_(std::move(requests)),
      ahead_(ahead),
      patience_(patience),
      stop_(stop),
      asked_(asked),
      events_(events) {
  for (const int leader : leaders) replicas_.push_back({.leader = leader, .step = {}, .heard = Clock::now()});
  replicas_[0].done = true;  // its own group ends before serve_until_done()
}

std::size_t Dealer::number_of(int leader) const {
  const auto at = std::ranges::find(replicas_, leader, &Replica::leader);
  if (at == replicas_.end()) throw Error(ExitCode::internal, fmt::format("rank {} leads no replica", leader));
  return static_cast<std::size_t>(at - replicas_.begin());
}

std::vector<Request> Dealer::grant(std::size_t replica, std::int64_t most) {
  std::int64_t open = list_.left();
  for (const Replica& other : replicas_) open += other.outstanding;
  const auto count = static_cast<std::int64_t>(replicas_.size());
  const std::int64_t share = (open + count - 1) / count - replicas_[replica].outstanding;
  std::vector<Request> requests = list_.take(std::min(most, share));
  replicas_[replica].outstanding += samples_of(requests);
  return requests;
}

// Asks stay open until there is something to give or nothing will come any more.
void Dealer::answer_asks() {
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    Replica& replica = replicas_[r];
    if (replica.asks == 0) continue;
    const std::vector<Request> requests = grant(r, replica.asks);
    if (requests.empty() && !list_.exhausted()) continue;
    replica.asks = 0;
    ByteWriter message = about(requests.empty() ? Topic::end : Topic::requests);
    const std::vector<std::byte> bytes = encode(requests);
    message.put(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    mail_.send(replica.leader, message.take());
  }
}

void Dealer::note_end(std::size_t replica) { --replicas_[replica].outstanding; }

// One series for the whole job: the sum of what each replica told last.
void Dealer::note_step(std::size_t replica, const StepRow& row) {
  replicas_[replica].step = row;
  last_time_ = std::max(last_time_, row.t);
  StepRow sum{.t = last_time_};
  for (const Replica& other : replicas_) {
    sum.sequences += other.step.sequences;
    sum.tokens += other.step.tokens;
    sum.kv_blocks_used += other.step.kv_blocks_used;
    sum.waiting += other.step.waiting;
    sum.preemptions += other.step.preemptions;
    sum.shared_tokens += other.step.shared_tokens;
  }
  sum.waiting += checked_cast<std::int32_t>(list_.left());
  events_.step(sum);
}

void Dealer::handle(std::size_t number, ByteReader& message) {
  Replica& replica = replicas_[number];
  replica.heard = Clock::now();
  switch (message.get<Topic>()) {
    case Topic::ask: replica.asks = message.get<std::int64_t>(); return;
    case Topic::answer: note_end(number); return events_.answer(get_answer_row(message));
    case Topic::failed: {
      note_end(number);
      const auto prompt = message.get<std::int64_t>();
      return events_.failed(prompt, message.get_string());
    }
    case Topic::scored: {
      const auto prompt = message.get<std::int64_t>();
      PromptRow scores = get_scores(message);
      return events_.scored(prompt, scores);
    }
    case Topic::step: return note_step(number, get_step_row(message));
    case Topic::done:
      replica.done = true;
      replica.step = {.preemptions = replica.step.preemptions, .shared_tokens = replica.step.shared_tokens};
      return;
    default: throw Error(ExitCode::internal, "a replica sent a message that makes no sense");
  }
}

void Dealer::check_alive() const {
  for (std::size_t r = 1; r < replicas_.size(); ++r)
    if (!replicas_[r].done && seconds_since(replicas_[r].heard) > patience_)
      throw Error(ExitCode::communication,
                  fmt::format("replica {} (led by rank {}) has not been heard of for {:.0f} s; {} of its answers are "
                              "missing",
                              r, replicas_[r].leader, patience_, replicas_[r].outstanding),
                  "run.collective_timeout");
}

void Dealer::serve() {
  while (auto letter = mail_.receive()) {
    ByteReader message(letter->bytes);
    if (!hear_stop(*letter, asked_)) handle(number_of(letter->from), message);
  }
  phase();
  answer_asks();
  check_alive();
}

StopPhase Dealer::phase() {
  list_.look();
  const StopPhase phase = list_.failed() ? StopPhase::leave : stop_.phase();
  if (phase == phase_) return phase;
  phase_ = phase;
  list_.close();
  for (std::size_t r = 1; r < replicas_.size(); ++r)
    if (!replicas_[r].done)
      mail_.send(replicas_[r].leader, about(phase == StopPhase::close ? Topic::close : Topic::leave).take());
  return phase;
}

void Dealer::wait() {
  std::this_thread::sleep_for(kNap);
  serve();
}

void Dealer::serve_until_done() {
  while (!std::ranges::all_of(replicas_, &Replica::done) || !mail_.sent_all()) wait();
}

ReplicaSource::ReplicaSource(Mailbox& mail, std::int64_t ahead) : mail_(mail), ahead_(ahead), told_(Clock::now()) {}

void ReplicaSource::send(ByteWriter message) { mail_.send(0, message.take()); }

void ReplicaSource::receive() {
  while (auto letter = mail_.receive()) {
    ByteReader message(letter->bytes);
    const auto topic = message.get<Topic>();
    if (topic == Topic::close || topic == Topic::leave) {
      phase_ = topic == Topic::close ? StopPhase::close : StopPhase::leave;
      end_ = true;
      granted_.clear();
      continue;
    }
    asked_ = false;
    if (topic == Topic::end) end_ = true;
    if (end_) continue;
    const std::string bytes = message.get_string();
    for (Request& request : decode_requests(std::as_bytes(std::span(bytes)))) granted_.push_back(std::move(request));
  }
}

std::vector<Request> ReplicaSource::take(std::int64_t most) {
  receive();
  std::vector<Request> out = std::move(granted_);
  granted_.clear();
  const std::int64_t more = most - samples_of(out);
  if (more > 0 && !asked_ && !end_) {
    ByteWriter message = about(Topic::ask);
    message.put(more);
    send(std::move(message));
    asked_ = true;
  }
  return out;
}

StopPhase ReplicaSource::phase() {
  receive();
  return phase_;
}

void ReplicaSource::wait() {
  std::this_thread::sleep_for(kNap);
  if (Clock::now() - told_ > kTellEvery) tell(last_);
  receive();
}

void ReplicaSource::tell(const StepRow& row) {
  ByteWriter message = about(Topic::step);
  put(message, row);
  send(std::move(message));
  told_ = Clock::now();
}

EngineEvents ReplicaSource::events(std::function<void()> step) {
  return {.answer =
              [this](const AnswerRow& row) {
                ByteWriter message = about(Topic::answer);
                put(message, row);
                send(std::move(message));
              },
          .failed =
              [this](std::int64_t prompt, const std::string& error) {
                ByteWriter message = about(Topic::failed);
                message.put(prompt);
                message.put(error);
                send(std::move(message));
              },
          .scored =
              [this](std::int64_t prompt, const PromptRow& scores) {
                ByteWriter message = about(Topic::scored);
                message.put(prompt);
                put_scores(message, scores);
                send(std::move(message));
              },
          .step =
              [this, step = std::move(step)](const StepRow& row) {
                step();
                last_ = row;
                if (Clock::now() - told_ > kTellEvery) tell(row);
              }};
}

void ReplicaSource::finish(double patience) {
  tell(last_);
  send(about(Topic::done));
  for (const auto start = Clock::now(); !mail_.sent_all(); std::this_thread::sleep_for(kNap))
    if (seconds_since(start) > patience)
      throw Error(ExitCode::communication, fmt::format("rank 0 has taken no message for {:.0f} s", patience),
                  "run.collective_timeout");
}

}  // namespace tpinfer
