#include "comm/backoff.hpp"
#include "comm/host_device.hpp"
#include "comm/partial_sums.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kWhere = "forward pass";

/// A world of one: sums are there already and only become float32.
class SelfDeviceCommunicator final : public HostDeviceCommunicator {
 public:
  SelfDeviceCommunicator(ParallelFor& parallel, const DeviceCommunicatorOptions& options)
      : HostDeviceCommunicator(options), parallel_(parallel) {
    if (options.partials == DType::float64) partials_ = aligned_partials<double>(options.most_partials);
  }

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::string_view kind() const noexcept override { return "self"; }
  /// float32 sums are the total already.
  Tensor partials(const Tensor& total) override {
    return partials_ ? Tensor{partials_.get(), DType::float64, total.rows, total.cols} : total;
  }

  void reduce(const Tensor& partials, const Tensor& total) override {
    const std::int64_t count = check_count(partials, total);
    if (!partials_) return;
    const double* const parts[] = {partials_.get()};
    stats_.beyond_exact += over_range(parallel_, 0, count, [&](std::int64_t first, std::int64_t last) {
      return sum_to_float(parts, first, last, total.floats());
    });
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    std::copy_n(local, rows * widths[0], out);
  }

  void share_rows(const float* local, std::span<const std::int64_t> begins, std::span<const std::int64_t> widths,
                  float* out) override {
    check_share(begins, widths);
    std::copy_n(local, begins.back() * widths[0], out);
  }

 private:
  ParallelFor& parallel_;
  std::unique_ptr<double[], FreeAligned> partials_;  ///< null for float32
};

/// Every collective by MPI: ranks that share no memory, or may not.
template <class Partial>
class MpiDeviceCommunicator final : public HostDeviceCommunicator {
 public:
  MpiDeviceCommunicator(Topology topology, ParallelFor& parallel, const DeviceCommunicatorOptions& options)
      : HostDeviceCommunicator(options),
        topology_(std::move(topology)),
        parallel_(parallel),
        partials_(aligned_partials<Partial>(options.most_partials)) {}

  int rank() const noexcept override { return topology_.all->rank(); }
  int size() const noexcept override { return topology_.all->size(); }
  std::string_view kind() const noexcept override { return "mpi"; }
  Tensor partials(const Tensor& total) override { return {partials_.get(), options_.partials, total.rows, total.cols}; }

  void reduce(const Tensor& partials, const Tensor& total) override {
    const std::int64_t count = check_count(partials, total);
    const auto start = Backoff::Clock::now();
    topology_.all->all_reduce_sum(std::span<Partial>{partials_.get(), static_cast<std::size_t>(count)}, partials_,
                                  kWhere);
    count_wait(start);
    const Partial* const parts[] = {partials_.get()};
    const auto beyond = over_range(parallel_, 0, count, [&](std::int64_t first, std::int64_t last) {
      return sum_to_float(parts, first, last, total.floats());
    });
    if (rank() == 0) stats_.beyond_exact += beyond;
    count_call(start, static_cast<std::uint64_t>(count) * sizeof(Partial));
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    const auto start = Backoff::Clock::now();
    topology_.all->gather_columns(local, rows, widths, out, kWhere);
    count_wait(start);
    count_call(start, static_cast<std::uint64_t>(rows * widths[static_cast<std::size_t>(rank())]) * sizeof(float));
  }

  void share_rows(const float* local, std::span<const std::int64_t> begins, std::span<const std::int64_t> widths,
                  float* out) override {
    check_share(begins, widths);
    const auto start = Backoff::Clock::now();
    topology_.all->share_rows(local, begins, widths, out, kWhere);
    count_wait(start);
    count_call(start,
               static_cast<std::uint64_t>(begins.back() * widths[static_cast<std::size_t>(rank())]) * sizeof(float));
  }

 private:
  static double since(Backoff::Clock::time_point start) {
    return std::chrono::duration<double>(Backoff::Clock::now() - start).count();
  }
  void count_wait(Backoff::Clock::time_point start) { stats_.wait_seconds += since(start); }
  void count_call(Backoff::Clock::time_point start, std::uint64_t bytes) {
    ++stats_.collectives;
    stats_.bytes += bytes;
    stats_.seconds += since(start);
  }

  Topology topology_;
  ParallelFor& parallel_;
  std::shared_ptr<Partial[]> partials_;
};

}  // namespace

std::unique_ptr<HostDeviceCommunicator> make_self_device(ParallelFor& parallel,
                                                         const DeviceCommunicatorOptions& options) {
  return std::make_unique<SelfDeviceCommunicator>(parallel, options);
}

std::unique_ptr<HostDeviceCommunicator> make_mpi_device(Topology topology, ParallelFor& parallel,
                                                        const DeviceCommunicatorOptions& options) {
  if (options.partials == DType::float32)
    return std::make_unique<MpiDeviceCommunicator<float>>(std::move(topology), parallel, options);
  return std::make_unique<MpiDeviceCommunicator<double>>(std::move(topology), parallel, options);
}

}  // namespace tpinfer
