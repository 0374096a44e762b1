// The program's reduce against MPI_Allreduce of the same partial sums, in turn: mpirun -np N bench_allreduce [BLOCKS].
// Rank 0 prints a JSON line a size: bytes of the partial sums of one rank, and the median microseconds of a call over
// blocks of calls, of the slowest rank; for exact sums (float64) and plain ones (float32).
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "comm/device_communicator.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kMostBytes = 256 << 10;
constexpr int kCalls = 100;  // of a block

class Alone final : public ParallelFor {
 public:
  int threads() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, const RangeBody& body) override {
    if (count > 0) body(0, count);
  }
};

template <class Call>
double microseconds(Call&& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  double mine = elapsed.count() / kCalls;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Times {
  double own = 0, mpi = 0, ratio = 0;  ///< microseconds; the ratio is the median of neighbours
};

template <class T>
Times measure(DeviceCommunicator& device, std::int64_t bytes, MPI_Datatype type, int blocks) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(T));
  std::vector<float> sums(static_cast<std::size_t>(count));
  std::vector<T> in(sums.size(), T{1}), out(sums.size());
  const Tensor total{sums.data(), DType::float32, 1, count};
  const auto own = [&] {
    const Tensor partials = device.partials(total);
    std::fill_n(static_cast<T*>(partials.data), count, T{1});  // as a product that writes its sums there would
    device.reduce(partials, total);
  };
  const auto mpi = [&] {
    std::ranges::fill(in, T{1});
    MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), type, MPI_SUM, MPI_COMM_WORLD);
    std::ranges::copy(out, sums.begin());
  };
  std::vector<double> owns, mpis, ratios;
  for (int block = 0; block <= blocks; ++block) {
    const bool own_first = block % 2 == 0;
    const double first = own_first ? microseconds(own) : microseconds(mpi);
    const double second = own_first ? microseconds(mpi) : microseconds(own);
    if (block == 0) continue;
    owns.push_back(own_first ? first : second);
    mpis.push_back(own_first ? second : first);
    ratios.push_back(owns.back() / mpis.back());
  }
  for (const float sum : sums)
    if (sum != static_cast<float>(device.size())) throw Error(ExitCode::internal, "a sum is wrong", "");
  return {median(owns), median(mpis), median(ratios)};
}

template <class T>
void run(Communicator& world, DType dtype, MPI_Datatype type, int blocks) {
  Alone alone;
  const auto device = make_host_device_communicator(
      world, alone,
      {.most_partials = kMostBytes / static_cast<std::int64_t>(sizeof(T)), .partials = dtype, .most_gathered = 1});
  for (const std::int64_t bytes :
       {std::int64_t{256}, std::int64_t{4} << 10, std::int64_t{16} << 10, std::int64_t{64} << 10, kMostBytes}) {
    const Times times = measure<T>(*device, bytes, type, blocks);
    if (world.rank() == 0)
      fmt::print(
          "{{\"ranks\": {}, \"kind\": \"{}\", \"sums\": \"{}\", \"bytes\": {}, \"own_us\": {:.3f}, \"mpi_us\": {:.3f}, "
          "\"ratio\": {:.4f}}}\n",
          world.size(), device->kind(), dtype_name(dtype), bytes, times.own, times.mpi, times.ratio);
  }
}

}  // namespace
}  // namespace tpinfer

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  try {
    const tpinfer::MpiSession session;
    const auto world = session.world(60);
    tpinfer::run<double>(*world, tpinfer::DType::float64, MPI_DOUBLE, blocks);
    tpinfer::run<float>(*world, tpinfer::DType::float32, MPI_FLOAT, blocks);
  } catch (const tpinfer::Error& e) {
    fmt::print(stderr, "bench_allreduce: {}\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 0;
}
