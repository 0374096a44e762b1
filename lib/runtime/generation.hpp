#pragma once

#include <chrono>
#include <vector>

#include "comm/mailbox.hpp"
#include "runtime/engine.hpp"
#include "runtime/rank_worker.hpp"
#include "runtime/replicas.hpp"

namespace tpinfer {

/// One rank's part in answering the prompts of a job.
struct GenerationRank {
  const RunSetup& setup;
  const ReplicaLayout& layout;
  RankWorker& worker;
  Communicator& steps;                          ///< of this rank's replica
  Mailbox* mail;                                ///< of all ranks; null where there is one rank
  StopSwitch& asked;                            ///< by signals to this rank; on rank 0 by other ranks too
  std::chrono::steady_clock::time_point start;  ///< that times are counted from, the same moment on all ranks
};

/// Rank 0: answers all requests, with what other replicas there are; returns when all is answered, or `stop` says so,
/// or requests that should have come cannot.
void lead_job(const GenerationRank& rank, RequestList requests, const AnsweringContext& context, StopPlan& stop,
              const EngineEvents& events);
/// All other ranks. `context` is used on the first rank of a replica.
void help_job(const GenerationRank& rank, const AnsweringContext& context);

}  // namespace tpinfer
