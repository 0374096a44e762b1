#include "comm/roll_call.hpp"

#include "comm/mpi_communicator.hpp"

namespace tpinfer {

RollCall::RollCall(MPI_Comm comm, int rank, int size)
    : comm_(comm),
      rank_(rank),
      heard_(static_cast<std::size_t>(size)),
      sending_(static_cast<std::size_t>(size)),
      sends_(static_cast<std::size_t>(size), MPI_REQUEST_NULL) {}

void RollCall::drain() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kRollCallTag, comm_, &there, &status) != MPI_SUCCESS || !there) return;
    std::int64_t number = 0;
    if (MPI_Recv(&number, 1, MPI_INT64_T, status.MPI_SOURCE, kRollCallTag, comm_, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return;
    auto& heard = heard_[static_cast<std::size_t>(status.MPI_SOURCE)];
    if (number > heard) heard = number;
  }
}

void RollCall::announce(std::int64_t number) {
  if (announced_ >= number) return;
  announced_ = number;
  drain();
  for (std::size_t to = 0; to < sends_.size(); ++to) {
    if (static_cast<int>(to) == rank_) continue;
    int done = 0;
    // the place of a message that has not left yet must not be overwritten
    if (MPI_Test(&sends_[to], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) continue;
    sending_[to] = number;
    MPI_Isend(&sending_[to], 1, MPI_INT64_T, static_cast<int>(to), kRollCallTag, comm_, &sends_[to]);
  }
}

std::vector<int> RollCall::silent(std::int64_t number) {
  drain();
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < heard_.size(); ++rank)
    if (static_cast<int>(rank) != rank_ && heard_[rank] < number) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace tpinfer
