#include <algorithm>
#include <cstring>

#include "comm/host_device.hpp"

namespace tpinfer {
namespace {

// Rank r's i-th partial sum; on the grid, and different for every rank and place. float32 holds it and its sums.
double known_partial(int rank, std::int64_t i) { return static_cast<double>((rank + 1) * (i % 1000 + 1)) * 0x1p-10; }

template <class T>
std::vector<T> known_partials(int rank, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(known_partial(rank, i)));
  return values;
}

bool reduce_is_right(DeviceCommunicator& device, std::int64_t count, const DeviceCopies& copies) {
  std::vector<float> total(static_cast<std::size_t>(count), -1.0f);
  const auto memory = copies.allocate(total.size() * sizeof(float));
  const Tensor to{copies.address(memory), DType::float32, 1, count};
  copies.upload(to.data, total.data(), to.bytes());
  const Tensor partials = device.partials(to);
  if (partials.dtype == DType::float64)
    copies.upload(partials.data, known_partials<double>(device.rank(), count).data(), partials.bytes());
  else
    copies.upload(partials.data, known_partials<float>(device.rank(), count).data(), partials.bytes());
  device.reduce(partials, to);
  copies.download(total.data(), to.data, to.bytes());
  for (std::int64_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int rank = 0; rank < device.size(); ++rank) expected += known_partial(rank, i);
    if (total[static_cast<std::size_t>(i)] != static_cast<float>(expected)) return false;
  }
  return true;
}

bool gather_is_right(DeviceCommunicator& device, std::int64_t most, const DeviceCopies& copies) {
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
  const auto from = copies.allocate(local.size() * sizeof(float));
  const auto to = copies.allocate(out.size() * sizeof(float));
  copies.upload(copies.address(from), local.data(), local.size() * sizeof(float));
  device.gather_columns(static_cast<const float*>(copies.address(from)), rows, widths,
                        static_cast<float*>(copies.address(to)));
  copies.download(out.data(), copies.address(to), out.size() * sizeof(float));
  if (device.rank() != 0) return true;
  std::vector<float> expected;
  for (std::int64_t row = 0; row < rows; ++row)
    for (int rank = 0; rank < device.size(); ++rank)
      for (std::int64_t column = 0; column < widths[static_cast<std::size_t>(rank)]; ++column)
        expected.push_back(value(rank, row, column));
  return out == expected;
}

}  // namespace

DeviceCopies host_copies() {
  const auto copy = [](void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  };
  return {.allocate = [](std::size_t bytes) -> std::shared_ptr<void> {
            return std::make_shared<std::vector<double>>(bytes / sizeof(double) + 1);
          },
          .address = [](const std::shared_ptr<void>& memory) -> void* {
            return static_cast<std::vector<double>*>(memory.get())->data();
          },
          .upload = copy,
          .download = copy};
}

void self_test(Communicator& comm, DeviceCommunicator& device, const DeviceCommunicatorOptions& options,
               const DeviceCopies& copies) {
  // twice the small kind, for both of its buffers, and one that is reduced in shares
  const std::int64_t small = std::min<std::int64_t>(options.most_partials, 100);
  const std::int64_t large = std::min<std::int64_t>(options.most_partials, kOneShotLimit + 1);
  std::string wrong;
  for (const std::int64_t count : {small, small, large})
    if (!reduce_is_right(device, count, copies) && wrong.empty()) wrong = fmt::format("reduce of {} values", count);
  if (!gather_is_right(device, options.most_gathered, copies) && wrong.empty()) wrong = "gather";
  together(comm, "self-test of the collectives", [&] {
    if (!wrong.empty())
      throw Error(ExitCode::communication,
                  fmt::format("collective self-test failed on rank {}: wrong result of a {} by {}", comm.rank(), wrong,
                              device.kind()),
                  "set parallel.communication to another transport, and tell the machine's administrator");
  });
}

}  // namespace tpinfer
