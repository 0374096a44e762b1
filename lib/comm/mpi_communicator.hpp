#pragma once

#include <mpi.h>

#include <array>

#include "comm/communicator.hpp"
#include "comm/roll_call.hpp"

namespace tpinfer {

inline constexpr int kGatherTag = 1;
inline constexpr int kRollCallTag = 2;

/// What the communicators of one MpiSession have in common.
struct MpiHealth {
  /// Marks the session as broken; the first reason stays.
  void fail(std::string_view reason) {
    if (why.empty()) why = reason;
  }
  bool broken() const noexcept { return !why.empty(); }

  std::string why;
  /// Memory that requests given up at a deadline may still write to.
  std::vector<std::shared_ptr<const void>> kept;
};

/// A broadcast begins with this much, so that a short message is one collective and not two.
struct BroadcastHead {
  std::uint64_t length = 0;
  std::array<std::byte, 1016> start = {};
};

struct MpiSettings {
  double timeout = 300;                                 ///< seconds that a collective may take without progress
  std::size_t most_per_message = std::size_t{1} << 30;  ///< bytes
};

/// Communicator over MPI, used from one thread. Collectives are non-blocking requests that are polled to a deadline.
class MpiCommunicator final : public Communicator {
 public:
  /// Takes `comm` over, on all of its ranks.
  MpiCommunicator(MPI_Comm comm, const MpiSettings& settings, std::shared_ptr<MpiHealth> health);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  int local_rank() const noexcept override { return local_rank_; }
  int local_size() const noexcept override { return local_size_; }
  int host() const noexcept override { return host_; }

  void barrier(std::string_view where) override;
  void broadcast(std::vector<std::byte>& bytes, int root, std::string_view where) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                             std::string_view where) override;
  std::vector<std::int64_t> all_gather(std::int64_t value, std::string_view where) override;
  std::unique_ptr<Communicator> split(int color, std::string_view where) override;
  [[noreturn]] void abort(ExitCode code) noexcept override;
  bool broken() const noexcept override { return health_->broken(); }

  /// split() with a timeout of its own.
  std::unique_ptr<MpiCommunicator> split_with(int color, double timeout, std::string_view where);
  /// values[i] = sum over ranks, on every rank. `owner` keeps the memory alive if the wait is given up.
  void all_reduce_sum(std::span<double> values, const std::shared_ptr<const void>& owner, std::string_view where);
  void all_reduce_sum(std::span<float> values, const std::shared_ptr<const void>& owner, std::string_view where);
  /// Rank 0 gets out [rows, sum of widths] from everybody's local [rows, widths[rank]].
  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths, float* out,
                      std::string_view where);

  /// Every rank gets rows [begins[rank], begins[rank + 1]) of that.
  void share_rows(const float* local, std::span<const std::int64_t> begins, std::span<const std::int64_t> widths,
                  float* out, std::string_view where);

  const std::shared_ptr<MpiHealth>& health() const noexcept { return health_; }
  MPI_Comm handle() const noexcept { return comm_; }
  double timeout() const noexcept { return settings_.timeout; }

 private:
  struct Place {
    std::string_view operation;
    std::string_view where;
  };
  /// Counts a collective; throws when the session is broken already.
  Place begin(std::string_view operation, std::string_view where);
  void check(int code, const Place& place) const;
  void wait(MPI_Request request, const Place& place);
  [[noreturn]] void missed_deadline(const Place& place, double waited);
  void all_reduce(std::byte* values, std::size_t count, MPI_Datatype type, std::size_t size,
                  const std::shared_ptr<const void>& owner, std::string_view where);
  void check_root(int root, const Place& place) const;
  struct Counts {
    std::vector<int> send, send_at, receive, receive_at;
    void clear();
  };
  void place_blocks(std::int64_t rows, std::span<const std::int64_t> widths, std::span<const int> starts,
                    float* out) const;
  void gather_rows(std::span<const float> local, std::int64_t rows, std::span<const std::int64_t> widths, float* out,
                   const Place& place);

  MPI_Comm comm_;
  MpiSettings settings_;
  std::shared_ptr<MpiHealth> health_;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int host_ = 0;
  std::int64_t sequence_ = 0;  // collectives begun
  std::unique_ptr<RollCall> roll_call_;
  // kept from call to call, and beyond a deadline
  std::shared_ptr<BroadcastHead> head_;
  std::shared_ptr<std::vector<float>> blocks_ = std::make_shared<std::vector<float>>();  // received, rank by rank
  Counts counts_;
};

/// Throws Error(communication) with MPI's own text when `code` is a failure.
void check_mpi(int code, std::string_view what);

/// "rank 3", "ranks 1, 2, 5".
std::string name_ranks(const std::vector<int>& ranks);

inline constexpr std::string_view kMissingRankHint =
    "a rank died or is stuck: look at its last message; run.collective_timeout is the limit";

}  // namespace tpinfer
