#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mailbox.hpp"
#include "core/bytes.hpp"
#include "runtime/engine.hpp"

namespace tpinfer {

/// Which ranks form which replica: ranks of one host together, `tensor` of them a group. Rank 0 leads group 0.
struct ReplicaLayout {
  std::vector<int> replica;  ///< [ranks] number of the group that a rank is in
  std::vector<int> leaders;  ///< [groups] lowest rank of each
  /// [ranks] place of each rank in its replica: its tensor-parallel rank.
  std::vector<int> places() const;
};
/// hosts: [ranks] number of each rank's host (Communicator::host). Error(usage) when the ranks cannot be divided so.
ReplicaLayout lay_out_replicas(const std::vector<std::int64_t>& hosts, int tensor);

/// Samples that a replica holds besides those that it runs: few, so that none is left waiting at the end.
constexpr std::int64_t replica_ahead(std::int64_t max_sequences) {
  return max_sequences / 16 < 4 ? max_sequences / 16 : 4;
}

/// Rank 0's side of several replicas: gives prompts out as replicas become free, its own group included, and hands on
/// what comes back. No replica holds more than its even share of what is not answered yet.
class Dealer final : public RequestSource {
 public:
  /// `mail`, `stop` and `events` must stay. Error(communication) from serve() when a replica has said nothing for
  /// `patience` seconds.
  Dealer(Mailbox& mail, RequestList requests, const std::vector<int>& leaders, std::int64_t ahead, double patience,
         StopPlan& stop, StopSwitch& asked, const EngineEvents& events);

  // for the group of rank 0
  std::vector<Request> take(std::int64_t most) override { return grant(0, most); }
  bool exhausted() const override { return list_.exhausted(); }
  std::int64_t ahead() const override { return ahead_; }
  void wait() override;
  /// Tells the others when it is no longer `go`; takes over requests that have become known.
  StopPhase phase() override;
  /// To be told of what group 0 has done.
  void ended_here() { note_end(0); }
  void step_here(const StepRow& row) { note_step(0, row); }

  /// Handles all messages that have arrived.
  void serve();
  /// Serves until all other replicas are done.
  void serve_until_done();

 private:
  struct Replica {
    int leader = 0;
    std::int64_t outstanding = 0;  ///< samples given out and not ended
    std::int64_t asks = 0;         ///< samples asked for and not granted yet
    bool done = false;
    StepRow step;
    std::chrono::steady_clock::time_point heard;
  };
  std::vector<Request> grant(std::size_t replica, std::int64_t most);
  void answer_asks();
  void handle(std::size_t replica, ByteReader& message);
  void note_end(std::size_t replica);
  void note_step(std::size_t replica, const StepRow& row);
  void check_alive() const;
  std::size_t number_of(int leader) const;

  Mailbox& mail_;
  RequestList list_;
  std::vector<Replica> replicas_;
  std::int64_t ahead_;
  double patience_;
  StopPlan& stop_;
  StopSwitch& asked_;
  StopPhase phase_ = StopPhase::go;
  const EngineEvents& events_;
  double last_time_ = 0;  ///< of the series
};

/// Tells rank 0 that this rank was asked to end the job; once, whatever how often it is called.
class StopTeller {
 public:
  /// `mail` may be null: then there is nobody to tell.
  StopTeller(Mailbox* mail, const StopSwitch& asked) : mail_(mail), asked_(asked) {}
  void tell();

 private:
  Mailbox* mail_;
  const StopSwitch& asked_;
  StopSwitch::Asked told_ = StopSwitch::Asked::no;
};

/// The requests of a job without other replicas, until it is to stop. `mail` (null: one rank) brings the wishes of
/// other ranks.
class StoppableList final : public RequestSource {
 public:
  StoppableList(RequestList requests, Mailbox* mail, StopPlan& stop, StopSwitch& asked)
      : list_(std::move(requests)), mail_(mail), stop_(stop), asked_(asked) {}
  std::vector<Request> take(std::int64_t most) override { return list_.take(most); }
  bool exhausted() const override { return list_.exhausted(); }
  std::int64_t ahead() const override { return list_.ahead(); }
  StopPhase phase() override;
  void wait() override { list_.look(kPatience); }

 private:
  static constexpr std::chrono::milliseconds kPatience{20};

  RequestList list_;
  Mailbox* mail_;
  StopPlan& stop_;
  StopSwitch& asked_;
};

/// The leader's side of another replica: asks rank 0 for prompts and tells it what becomes of them.
class ReplicaSource final : public RequestSource {
 public:
  ReplicaSource(Mailbox& mail, std::int64_t ahead);

  std::vector<Request> take(std::int64_t most) override;
  bool exhausted() const override { return end_ && granted_.empty(); }
  std::int64_t ahead() const override { return ahead_; }
  void wait() override;
  StopPhase phase() override;
  /// What the engine shall tell; they go to rank 0. `step` is called besides after each step.
  EngineEvents events(std::function<void()> step);
  /// After the engine has ended: tells rank 0, and waits until it has taken everything over.
  void finish(double patience);

 private:
  void receive();
  void send(ByteWriter message);
  void tell(const StepRow& row);

  Mailbox& mail_;
  std::int64_t ahead_;
  std::vector<Request> granted_;
  bool asked_ = false;
  bool end_ = false;
  StopPhase phase_ = StopPhase::go;
  StepRow last_;
  std::chrono::steady_clock::time_point told_;  ///< when rank 0 last heard of this replica's steps
};

}  // namespace tpinfer
