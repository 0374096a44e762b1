#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace tpinfer {

/// Ranks that act together, host side. Every operation is collective, names the place it is called from (for the
/// message when ranks are missing), polls to a deadline and throws Error(communication) when that passes. Waiting
/// yields the processor.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual int local_rank() const noexcept = 0;  ///< among the ranks of this host
  virtual int host() const noexcept = 0;        ///< number of this rank's host: the lowest rank on it
  virtual int local_size() const noexcept = 0;

  virtual void barrier(std::string_view where) = 0;
  /// The root's bytes become everybody's; any length (also above 2 GiB); reuses `bytes`' memory.
  virtual void broadcast(std::vector<std::byte>& bytes, int root, std::string_view where) = 0;
  /// Everybody's bytes, by rank, on the root; empty on the others.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                                     std::string_view where) = 0;
  /// Everybody's number, by rank, on every rank.
  virtual std::vector<std::int64_t> all_gather(std::int64_t value, std::string_view where) = 0;
  /// A communicator of the ranks with the same color, in order of rank. It outlives nothing: the parent must stay.
  virtual std::unique_ptr<Communicator> split(int color, std::string_view where) = 0;
  /// Ends all ranks at once; only for app/, when agreement is impossible.
  [[noreturn]] virtual void abort(ExitCode code) noexcept = 0;
  /// True once a deadline has passed or MPI has failed here: ranks no longer agree on what comes next, every further
  /// call throws, and only abort() is left.
  virtual bool broken() const noexcept { return false; }
};

/// Agreement before anything that a missing rank would leave hanging: runs `failure` (null: this rank is fine) past all
/// ranks. When any failed, every rank throws the Error of the lowest failing rank: "rank N: " before its text when N is
/// not 0, ", and K more ranks" behind it when others failed too, neither where all failed with the same text; same exit
/// code, `internal` for other exceptions.
void agree(Communicator& comm, const std::exception_ptr& failure, std::string_view where);

/// Runs `work` on every rank and agrees on the outcome: returns on all ranks or throws the same Error on all.
template <class Work>
void together(Communicator& comm, std::string_view where, Work&& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  agree(comm, failure, where);
}

struct MpiHealth;

/// MPI for the life of the program: initialised in the constructor (MPI_THREAD_FUNNELED), finalised in the destructor.
/// Works without mpirun, as a world of one. When MPI is initialised already it is left as it is at the end; when a
/// communicator of this session is broken, finalising would hang and is left out.
class MpiSession {
 public:
  /// Error(communication) when MPI does not start.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  /// A duplicate of MPI_COMM_WORLD; collective. timeout: seconds that a collective may take without progress;
  /// most_per_message: bytes of one MPI message, longer ones go in parts.
  std::unique_ptr<Communicator> world(double timeout, std::size_t most_per_message = std::size_t{1} << 30) const;

 private:
  std::shared_ptr<MpiHealth> health_;
  bool initialised_here_ = false;
};

/// A world of one, without MPI.
std::unique_ptr<Communicator> make_self_communicator();

/// "Open MPI v4.1.4, ..." as the library tells it (no initialisation needed).
std::string mpi_library_version();
/// "Open MPI 4.1.4 (MPI 3.1)": whose mpi.h this program was built with.
std::string mpi_build_version();

}  // namespace tpinfer
