// Times (the writing of the partial sums included, so that they are in the writer's cache) of the forward pass's
// reduction beside MPI's own all-reduce of the same float64 values, in turn. Prints only.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "comm/device_communicator.hpp"
#include "mpi_test.hpp"

namespace tpinfer {
namespace {

template <class Work>
double median_of(int repeats, Work&& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)] * 1e6;
}

void reduce_ones(DeviceCommunicator& device, const Tensor& total) {
  const Tensor partials = device.partials(total);
  std::fill_n(static_cast<double*>(partials.data), total.cols, 1.0);
  device.reduce(partials, total);
}

TEST(ReduceBench, BesideMpi) {
  testing::SerialFor serial;
  DeviceCommunicatorOptions options;
  options.most_partials = 1 << 17;
  options.timeout = 60;
  const auto shm = make_host_device_communicator(testing::world(), serial, options);
  options.transport = Transport::mpi;
  const auto mpi = make_host_device_communicator(testing::world(), serial, options);
  std::vector<float> total(static_cast<std::size_t>(options.most_partials));
  std::vector<double> sums(total.size());
  std::vector<double> parts(total.size(), 1.0);
  for (const std::int64_t count : {64, 1024, 2048, 4096, 8192, 16384, 32768, 131072}) {
    const int repeats = count > 20'000 ? 50 : 300;
    const Tensor to{total.data(), DType::float32, 1, count};
    double best[3] = {1e9, 1e9, 1e9};
    for (int round = 0; round < 3; ++round) {
      best[0] = std::min(best[0], median_of(repeats, [&] { reduce_ones(*shm, to); }));
      best[1] = std::min(best[1], median_of(repeats, [&] { reduce_ones(*mpi, to); }));
      best[2] = std::min(best[2], median_of(repeats, [&] {
                           std::fill_n(parts.data(), count, 1.0);
                           MPI_Allreduce(parts.data(), sums.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                                         MPI_COMM_WORLD);
                         }));
    }
    if (testing::world().rank() == 0)
      std::printf("%8lld doubles: %s %8.2f us  mpi %8.2f us  MPI_Allreduce %8.2f us  ratio %.2f\n",
                  static_cast<long long>(count), std::string(shm->kind()).c_str(), best[0], best[1], best[2],
                  best[0] / best[2]);
  }
}

TEST(ReduceBench, LongBroadcast) {
  std::vector<std::byte> bytes(testing::world().rank() == 0 ? std::size_t{1} << 28 : 0);
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    testing::world().broadcast(bytes, 0, "bench");
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (testing::world().rank() == 0)
      std::printf("broadcast of 256 MiB: %.1f ms (%.2f GB/s)\n", seconds.count() * 1e3, 0.268 / seconds.count());
  }
}

}  // namespace
}  // namespace tpinfer
