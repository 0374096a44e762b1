#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace tpinfer {

/// Finds out which ranks are missing from a collective. A rank that has waited for a while sends the number of the
/// collective it waits in to all others; when a deadline passes, the ranks that have sent no such number, or a lower
/// one, are those to look at. Costs nothing while collectives are quick.
class RollCall {
 public:
  RollCall(MPI_Comm comm, int rank, int size);
  /// Takes in what was sent and not read; MPI must still be there.
  void drain();
  /// Tells all others that this rank waits in collective `number`.
  void announce(std::int64_t number);
  /// The ranks that have not said that they reached collective `number`.
  std::vector<int> silent(std::int64_t number);

 private:
  MPI_Comm comm_;
  int rank_;
  std::int64_t announced_ = 0;
  std::vector<std::int64_t> heard_;    // [size] highest number that each rank has sent
  std::vector<std::int64_t> sending_;  // [size] what is on its way to each rank
  std::vector<MPI_Request> sends_;     // [size]
};

}  // namespace tpinfer
