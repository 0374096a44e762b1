#include <sched.h>

#include <algorithm>

#include "comm/backoff.hpp"
#include "comm/host_device.hpp"
#include "comm/partial_sums.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kWhere = "forward pass";
constexpr int kSpins = 300;  // pauses before the first yield: some microseconds

/// Reduces through a shared window, among hosts by MPI. A rank's tick counts its synchronisations; a rank that waits
/// for tick t goes on when all of its host are at t or later. Ranks run through the same ticks by construction.
template <class Partial>
class ShmDeviceCommunicator final : public HostDeviceCommunicator {
 public:
  ShmDeviceCommunicator(Topology topology, std::shared_ptr<ShmWindow> window, ParallelFor& parallel,
                        const DeviceCommunicatorOptions& options)
      : HostDeviceCommunicator(options),
        topology_(std::move(topology)),
        window_(std::move(window)),
        parallel_(parallel),
        me_(topology_.local_rank()),
        ranks_(topology_.local_size()),
        parts_(static_cast<std::size_t>(ranks_)) {}

  int rank() const noexcept override { return topology_.all->rank(); }
  int size() const noexcept override { return topology_.all->size(); }
  std::string_view kind() const noexcept override { return topology_.hosts == 1 ? "shm" : "shm+mpi"; }
  Tensor partials(const Tensor& total) override { return {place(me_), options_.partials, total.rows, total.cols}; }
  void reduce(const Tensor& partials, const Tensor& total) override;
  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths, float* out) override;
  void share_rows(const float* local, std::span<const std::int64_t> begins, std::span<const std::int64_t> widths,
                  float* out) override;

 private:
  Partial* place(int rank) const noexcept { return reinterpret_cast<Partial*>(window_->partials(rank, view_)); }
  void reduce_at_once(std::int64_t count, float* total);
  void reduce_in_shares(std::int64_t count, float* total);
  void reduce_across_hosts(std::int64_t begin, std::int64_t end, std::int64_t count);
  std::uint64_t to_result(Parts<Partial> sums, std::int64_t begin, std::int64_t end);
  std::int64_t share_begin(int rank, std::int64_t count) const noexcept;

  void show_block(const float* local, std::int64_t count);
  void read_blocks(const float* local, std::int64_t first, std::int64_t end, std::span<const std::int64_t> widths,
                   std::uint64_t tick, float* out);
  void count_gather(Backoff::Clock::time_point start, std::int64_t floats);

  void arrive(std::int64_t size);
  void await_all(std::int64_t size);
  void await(int rank, std::uint64_t tick);
  [[noreturn]] void missed_deadline(std::uint64_t tick, double waited) const;

  Topology topology_;
  std::shared_ptr<ShmWindow> window_;
  ParallelFor& parallel_;
  int me_;
  int ranks_;  // of this host
  int view_ = 0;
  std::uint64_t tick_ = 0;
  std::uint64_t gather_tick_ = 0;      // of the last gather
  bool all_read_ = false;              // in that one, not rank 0 alone
  std::vector<const Partial*> parts_;  // [ranks_] partial sums of the reduce at work
};

template <class Partial>
void ShmDeviceCommunicator<Partial>::arrive(std::int64_t size) {
  auto& mine = window_->line(me_);
  ++tick_;
  mine.size[tick_ % mine.size.size()].store(size, std::memory_order_relaxed);
  mine.tick.store(tick_, std::memory_order_release);
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::await(int rank, std::uint64_t tick) {
  const auto& theirs = window_->line(rank).tick;
  if (theirs.load(std::memory_order_acquire) >= tick) return;
  Backoff backoff(options_.timeout, topology_.crowded ? 0 : kSpins);
  while (theirs.load(std::memory_order_acquire) < tick)
    if (!backoff.step()) missed_deadline(tick, backoff.waited());
  stats_.wait_seconds += backoff.waited();
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::await_all(std::int64_t size) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == me_) continue;
    await(rank, tick_);
    // no rank is more than two ticks ahead of another (gathers let ranks pass), so this slot is still of this tick
    const auto& slots = window_->line(rank).size;
    const auto theirs = slots[tick_ % slots.size()].load(std::memory_order_relaxed);
    if (theirs != size)
      throw Error(ExitCode::internal,
                  fmt::format("collective {}: rank {} works on {} values where rank {} works on {}", tick_,
                              topology_.local_ranks[static_cast<std::size_t>(rank)], theirs, this->rank(), size));
  }
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::missed_deadline(std::uint64_t tick, double waited) const {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (window_->line(rank).tick.load(std::memory_order_acquire) < tick)
      missing.push_back(topology_.local_ranks[static_cast<std::size_t>(rank)]);
  const auto sentence = fmt::format("collective {} ({}): rank {} of {} waited {:.1f} s for {}", tick, kWhere, rank(),
                                    size(), waited, name_ranks(missing));
  topology_.all->health()->fail(sentence);
  throw Error(ExitCode::communication, sentence, std::string(kMissingRankHint));
}

// Shares begin at multiples of a cache line of the result.
template <class Partial>
std::int64_t ShmDeviceCommunicator<Partial>::share_begin(int rank, std::int64_t count) const noexcept {
  constexpr std::int64_t kLine = 16;
  return std::min(count, (count * rank / ranks_ + kLine - 1) / kLine * kLine);
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::reduce(const Tensor& partials, const Tensor& total) {
  const std::int64_t count = check_count(partials, total);
  const auto start = Backoff::Clock::now();
  for (int rank = 0; rank < ranks_; ++rank) parts_[static_cast<std::size_t>(rank)] = place(rank);
  if (topology_.hosts == 1 && count <= kOneShotLimit)
    reduce_at_once(count, total.floats());
  else
    reduce_in_shares(count, total.floats());
  ++stats_.collectives;
  stats_.bytes += static_cast<std::uint64_t>(count) * sizeof(Partial);
  stats_.seconds += std::chrono::duration<double>(Backoff::Clock::now() - start).count();
}

// One synchronisation. The next sums go to the other view, as slow ranks may still read this one; when this view comes
// up again all have arrived at the reduce between, hence are done with this one.
template <class Partial>
void ShmDeviceCommunicator<Partial>::reduce_at_once(std::int64_t count, float* total) {
  arrive(count);
  await_all(count);
  const auto beyond = sum_to_float(parts_, 0, count, total);
  if (rank() == 0) stats_.beyond_exact += beyond;
  view_ = 1 - view_;
}

// Every rank sums its share; the second synchronisation says that all sums are there and all partial sums are read.
template <class Partial>
void ShmDeviceCommunicator<Partial>::reduce_in_shares(std::int64_t count, float* total) {
  arrive(count);
  await_all(count);
  const std::int64_t begin = share_begin(me_, count);
  const std::int64_t end = share_begin(me_ + 1, count);
  if (topology_.hosts == 1)
    stats_.beyond_exact += to_result(parts_, begin, end);
  else
    reduce_across_hosts(begin, end, count);
  arrive(count);
  await_all(count);
  const float* result = window_->result();
  over_range(parallel_, 0, count, [&](std::int64_t first, std::int64_t last) {
    std::copy(result + first, result + last, total + first);
    return std::uint64_t{0};
  });
  view_ = 0;
}

// The host's sums replace the first rank's partial sums: of a share, only the rank that sums it reads or writes any.
template <class Partial>
void ShmDeviceCommunicator<Partial>::reduce_across_hosts(std::int64_t begin, std::int64_t end, std::int64_t count) {
  Partial* sums = place(0);
  over_range(parallel_, begin, end, [&](std::int64_t first, std::int64_t last) {
    sum_parts(parts_, first, last, sums);
    return std::uint64_t{0};
  });
  if (!topology_.equal_hosts) {  // the hosts' shares differ: their first ranks do it for all
    arrive(count);
    await_all(count);
    if (me_ != 0) return;
    begin = 0;
    end = count;
  }
  const auto start = Backoff::Clock::now();
  topology_.across->all_reduce_sum(std::span<Partial>{sums + begin, static_cast<std::size_t>(end - begin)}, window_,
                                   kWhere);
  stats_.wait_seconds += std::chrono::duration<double>(Backoff::Clock::now() - start).count();
  const Partial* const whole[] = {sums};
  const auto beyond = to_result(whole, begin, end);
  if (topology_.first_host) stats_.beyond_exact += beyond;
}

template <class Partial>
std::uint64_t ShmDeviceCommunicator<Partial>::to_result(Parts<Partial> sums, std::int64_t begin, std::int64_t end) {
  float* result = window_->result();
  return over_range(parallel_, begin, end,
                    [&](std::int64_t first, std::int64_t last) { return sum_to_float(sums, first, last, result); });
}

// Into this rank's part of the window, when the others have read what the last gather left there.
template <class Partial>
void ShmDeviceCommunicator<Partial>::show_block(const float* local, std::int64_t count) {
  for (int reader = 0; reader < (all_read_ ? ranks_ : 1); ++reader)
    if (reader != me_) await(reader, gather_tick_);
  std::copy_n(local, count, window_->gathered(me_));
}

// Rows [first, end) of all ranks side by side, each rank's when it is at the tick.
template <class Partial>
void ShmDeviceCommunicator<Partial>::read_blocks(const float* local, std::int64_t first, std::int64_t end,
                                                 std::span<const std::int64_t> widths, std::uint64_t tick, float* out) {
  std::int64_t total = 0;
  for (const auto width : widths) total += width;
  std::int64_t column = 0;
  for (int from = 0; from < ranks_; ++from) {
    if (from != me_) await(from, tick);
    const float* block = from == me_ ? local : window_->gathered(from);
    const std::int64_t width = widths[static_cast<std::size_t>(from)];
    for (std::int64_t row = first; row < end; ++row)
      std::copy_n(block + row * width, width, out + (row - first) * total + column);
    column += width;
  }
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::count_gather(Backoff::Clock::time_point start, std::int64_t floats) {
  ++stats_.collectives;
  stats_.bytes += static_cast<std::uint64_t>(floats) * sizeof(float);
  stats_.seconds += std::chrono::duration<double>(Backoff::Clock::now() - start).count();
}

template <class Partial>
void ShmDeviceCommunicator<Partial>::gather_columns(const float* local, std::int64_t rows,
                                                    std::span<const std::int64_t> widths, float* out) {
  check_gather(rows, widths);
  const auto start = Backoff::Clock::now();
  const std::int64_t floats = rows * widths[static_cast<std::size_t>(rank())];
  if (topology_.hosts > 1) {
    topology_.all->gather_columns(local, rows, widths, out, kWhere);
  } else {
    // rank 0 arrives when it has read all, so that its tick lets the others write again
    if (me_ != 0)
      show_block(local, floats);
    else
      read_blocks(local, 0, rows, widths, tick_ + 1, out);
    arrive(rows);
    gather_tick_ = tick_;
    all_read_ = false;
  }
  count_gather(start, floats);
}

// Two ticks: this rank's rows are there, this rank has read its own ones. Who has none to read waits for nobody.
template <class Partial>
void ShmDeviceCommunicator<Partial>::share_rows(const float* local, std::span<const std::int64_t> begins,
                                                std::span<const std::int64_t> widths, float* out) {
  check_share(begins, widths);
  const auto start = Backoff::Clock::now();
  const auto own = static_cast<std::size_t>(rank());
  const std::int64_t floats = begins.back() * widths[own];
  if (topology_.hosts > 1) {
    topology_.all->share_rows(local, begins, widths, out, kWhere);
  } else {
    show_block(local, floats);
    arrive(begins.back());
    if (begins[own] < begins[own + 1]) read_blocks(local, begins[own], begins[own + 1], widths, tick_, out);
    arrive(begins.back());
    gather_tick_ = tick_;
    all_read_ = true;
  }
  count_gather(start, floats);
}

}  // namespace

std::unique_ptr<HostDeviceCommunicator> make_shm_device(Topology topology, std::shared_ptr<ShmWindow> window,
                                                        ParallelFor& parallel,
                                                        const DeviceCommunicatorOptions& options) {
  if (options.partials == DType::float32)
    return std::make_unique<ShmDeviceCommunicator<float>>(std::move(topology), std::move(window), parallel, options);
  return std::make_unique<ShmDeviceCommunicator<double>>(std::move(topology), std::move(window), parallel, options);
}

}  // namespace tpinfer
