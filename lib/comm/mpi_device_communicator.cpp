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
      : HostDeviceCommunicator(options), parallel_(parallel), partials_(aligned_doubles(options.most_partials)) {}

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  std::string_view kind() const noexcept override { return "self"; }
  double* partials() override { return partials_.get(); }

  void reduce(std::int64_t count, float* total) override {
    check_count(count);
    const double* const parts[] = {partials_.get()};
    stats_.beyond_exact += over_range(parallel_, 0, count, [&](std::int64_t first, std::int64_t last) {
      return sum_to_float(parts, first, last, total);
    });
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    std::copy_n(local, rows * widths[0], out);
  }

 private:
  ParallelFor& parallel_;
  std::unique_ptr<double[], FreeAligned> partials_;
};

/// Every collective by MPI: ranks that share no memory, or may not.
class MpiDeviceCommunicator final : public HostDeviceCommunicator {
 public:
  MpiDeviceCommunicator(Topology topology, ParallelFor& parallel, const DeviceCommunicatorOptions& options)
      : HostDeviceCommunicator(options),
        topology_(std::move(topology)),
        parallel_(parallel),
        partials_(aligned_doubles(options.most_partials)) {}

  int rank() const noexcept override { return topology_.all->rank(); }
  int size() const noexcept override { return topology_.all->size(); }
  std::string_view kind() const noexcept override { return "mpi"; }
  double* partials() override { return partials_.get(); }

  void reduce(std::int64_t count, float* total) override {
    check_count(count);
    const auto start = Backoff::Clock::now();
    topology_.all->all_reduce_sum({partials_.get(), static_cast<std::size_t>(count)}, partials_, kWhere);
    count_wait(start);
    const double* const parts[] = {partials_.get()};
    const auto beyond = over_range(parallel_, 0, count, [&](std::int64_t first, std::int64_t last) {
      return sum_to_float(parts, first, last, total);
    });
    if (rank() == 0) stats_.beyond_exact += beyond;
    count_call(start, static_cast<std::uint64_t>(count) * sizeof(double));
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    const auto start = Backoff::Clock::now();
    topology_.all->gather_columns(local, rows, widths, out, kWhere);
    count_wait(start);
    count_call(start, static_cast<std::uint64_t>(rows * widths[static_cast<std::size_t>(rank())]) * sizeof(float));
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
  std::shared_ptr<double[]> partials_;
};

}  // namespace

std::unique_ptr<HostDeviceCommunicator> make_self_device(ParallelFor& parallel,
                                                         const DeviceCommunicatorOptions& options) {
  return std::make_unique<SelfDeviceCommunicator>(parallel, options);
}

std::unique_ptr<HostDeviceCommunicator> make_mpi_device(Topology topology, ParallelFor& parallel,
                                                        const DeviceCommunicatorOptions& options) {
  return std::make_unique<MpiDeviceCommunicator>(std::move(topology), parallel, options);
}

}  // namespace tpinfer
