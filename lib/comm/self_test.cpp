#include <algorithm>

#include "comm/host_device.hpp"

namespace tpinfer {
namespace {

// Rank r's i-th partial sum; on the grid, and different for every rank and place.
double known_partial(int rank, std::int64_t i) { return static_cast<double>((rank + 1) * (i % 1000 + 1)) * 0x1p-10; }

bool reduce_is_right(DeviceCommunicator& device, std::int64_t count) {
  double* partials = device.partials();
  for (std::int64_t i = 0; i < count; ++i) partials[i] = known_partial(device.rank(), i);
  std::vector<float> total(static_cast<std::size_t>(count), -1.0f);
  device.reduce(count, total.data());
  for (std::int64_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int rank = 0; rank < device.size(); ++rank) expected += known_partial(rank, i);
    if (total[static_cast<std::size_t>(i)] != static_cast<float>(expected)) return false;
  }
  return true;
}

bool gather_is_right(DeviceCommunicator& device, std::int64_t most) {
  const std::int64_t rows = most < 4 ? 1 : 2;
  std::vector<std::int64_t> widths;
  for (int rank = 0; rank < device.size(); ++rank) widths.push_back(std::min<std::int64_t>(most / rows, rank % 3));
  const auto value = [](int rank, std::int64_t row, std::int64_t column) {
    return static_cast<float>(100 * rank + 10 * row + column + 1);
  };
  std::vector<float> local;
  std::int64_t total = 0;
  for (const auto width : widths) total += width;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < widths[static_cast<std::size_t>(device.rank())]; ++column)
      local.push_back(value(device.rank(), row, column));
  std::vector<float> out(static_cast<std::size_t>(rows * total), -1.0f);
  device.gather_columns(local.data(), rows, widths, out.data());
  if (device.rank() != 0) return true;
  std::vector<float> expected;
  for (std::int64_t row = 0; row < rows; ++row)
    for (int rank = 0; rank < device.size(); ++rank)
      for (std::int64_t column = 0; column < widths[static_cast<std::size_t>(rank)]; ++column)
        expected.push_back(value(rank, row, column));
  return out == expected;
}

}  // namespace

void self_test(Communicator& comm, DeviceCommunicator& device, const DeviceCommunicatorOptions& options) {
  // twice the small kind, for both of its buffers, and one that is reduced in shares
  const std::int64_t small = std::min<std::int64_t>(options.most_partials, 100);
  const std::int64_t large = std::min<std::int64_t>(options.most_partials, kOneShotLimit + 1);
  std::string wrong;
  for (const std::int64_t count : {small, small, large})
    if (!reduce_is_right(device, count) && wrong.empty()) wrong = fmt::format("reduce of {} values", count);
  if (!gather_is_right(device, options.most_gathered) && wrong.empty()) wrong = "gather";
  together(comm, "self-test of the collectives", [&] {
    if (!wrong.empty())
      throw Error(ExitCode::communication,
                  fmt::format("collective self-test failed on rank {}: wrong result of a {} by {}", comm.rank(), wrong,
                              device.kind()),
                  "set parallel.communication to another transport, and tell the machine's administrator");
  });
}

}  // namespace tpinfer
