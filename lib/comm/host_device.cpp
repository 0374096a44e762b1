#include "comm/host_device.hpp"

#include <sched.h>

#include <algorithm>
#include <map>

namespace tpinfer {
namespace {

constexpr std::string_view kWhere = "setting up the collectives";

// Whether `threads` threads on each rank of this host are more than the cores that these ranks may use together.
bool is_crowded(Communicator& local, int threads) {
  cpu_set_t own;
  CPU_ZERO(&own);
  const bool known = sched_getaffinity(0, sizeof(own), &own) == 0;  // fails above 1024 cores: not crowded then
  const auto masks = local.gather(std::as_bytes(std::span(&own, 1)), 0, kWhere);
  std::vector<std::byte> answer(1);
  if (local.rank() == 0 && known) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const auto& mask : masks) {
      cpu_set_t theirs;
      std::copy(mask.begin(), mask.end(), reinterpret_cast<std::byte*>(&theirs));
      CPU_OR(&all, &all, &theirs);
    }
    answer[0] = std::byte{local.size() * threads > CPU_COUNT(&all)};
  }
  local.broadcast(answer, 0, kWhere);
  return answer[0] != std::byte{0};
}

Topology find_topology(MpiCommunicator& comm, int threads, double timeout, const HostDeviceOverrides& overrides) {
  Topology topology;
  const auto me = static_cast<std::size_t>(comm.rank());
  topology.all = comm.split_with(0, timeout, kWhere);
  const int own = overrides.hosts.empty() ? comm.host() : overrides.hosts.at(me);
  const auto hosts = comm.all_gather(own, kWhere);
  std::map<std::int64_t, int> sizes;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    ++sizes[hosts[rank]];
    if (hosts[rank] == own) topology.local_ranks.push_back(static_cast<int>(rank));
  }
  topology.hosts = static_cast<int>(sizes.size());
  topology.first_host = hosts[0] == own;
  topology.equal_hosts =
      std::all_of(sizes.begin(), sizes.end(), [&](const auto& host) { return host.second == sizes.begin()->second; });
  topology.local = topology.all->split_with(own, timeout, kWhere);
  if (topology.hosts > 1) {
    const int color = topology.equal_hosts ? topology.local_rank() : std::min(1, topology.local_rank());
    topology.across = topology.all->split_with(color, timeout, kWhere);
  }
  topology.crowded = is_crowded(*topology.local, threads);
  return topology;
}

WindowShape window_shape(int local_ranks, bool one_host, const DeviceCommunicatorOptions& options) {
  WindowShape shape;
  shape.ranks = local_ranks;
  shape.partial_bytes = dtype_size(options.partials);
  shape.most_partials = options.most_partials;
  shape.small_partials = one_host ? kOneShotLimit : 0;
  shape.most_gathered = one_host ? options.most_gathered : 0;
  return shape;
}

std::shared_ptr<ShmWindow> make_window(Topology& topology, const DeviceCommunicatorOptions& options,
                                       const HostDeviceOverrides& overrides) {
  if (options.transport == Transport::shm && topology.hosts > 1)
    throw Error(
        ExitCode::communication,
        fmt::format("the {} ranks run on {} hosts, which share no memory", topology.all->size(), topology.hosts),
        "parallel.communication: auto uses shared memory inside a host and MPI between hosts");
  const auto shape = window_shape(topology.local_size(), topology.hosts == 1, options);
  return ShmWindow::make(*topology.all, *topology.local, shape, overrides.shm_free);
}

std::unique_ptr<HostDeviceCommunicator> make_device(MpiCommunicator& comm, ParallelFor& parallel,
                                                    const DeviceCommunicatorOptions& options,
                                                    const HostDeviceOverrides& overrides) {
  auto topology = find_topology(comm, parallel.threads(), options.timeout, overrides);
  const bool alone = topology.hosts == comm.size();  // no two ranks share a host
  std::string note;
  if (options.transport == Transport::shm || (options.transport == Transport::automatic && !alone)) {
    try {
      auto window = make_window(topology, options, overrides);
      return make_shm_device(std::move(topology), std::move(window), parallel, options);
    } catch (const Error& error) {
      // every rank is here, with the same error: the window is agreed on
      if (options.transport == Transport::shm || error.code() != ExitCode::communication || comm.broken()) throw;
      note = fmt::format("ranks of this host communicate by MPI: {}", error.what());
    }
  }
  std::unique_ptr<HostDeviceCommunicator> device;
  together(comm, kWhere, [&] { device = make_mpi_device(std::move(topology), parallel, options); });
  device->set_note(std::move(note));
  return device;
}

}  // namespace

std::int64_t HostDeviceCommunicator::check_count(const Tensor& partials, const Tensor& total) const {
  const std::int64_t count = total.rows * total.cols;
  if (count < 0 || count > options_.most_partials)
    throw Error(ExitCode::internal,
                fmt::format("a reduce of {} values where at most {} were announced", count, options_.most_partials));
  if (partials.dtype != options_.partials || partials.rows * partials.cols != count || total.dtype != DType::float32)
    throw Error(ExitCode::internal, fmt::format("a reduce of {} values in {} to {} in {} where {} was announced",
                                                partials.rows * partials.cols, dtype_name(partials.dtype), count,
                                                dtype_name(total.dtype), dtype_name(options_.partials)));
  return count;
}

void HostDeviceCommunicator::check_gather(std::int64_t rows, std::span<const std::int64_t> widths) const {
  if (rows < 0 || std::ssize(widths) != size())
    throw Error(ExitCode::internal,
                fmt::format("a gather of {} rows with {} widths over {} ranks", rows, widths.size(), size()));
  for (const auto width : widths)
    if (width < 0 || rows * width > options_.most_gathered)
      throw Error(ExitCode::internal, fmt::format("a gather of {} x {} values where at most {} were announced", rows,
                                                  width, options_.most_gathered));
}

void HostDeviceCommunicator::check_share(std::span<const std::int64_t> begins,
                                         std::span<const std::int64_t> widths) const {
  if (std::ssize(begins) != size() + 1 || begins.front() != 0 || !std::ranges::is_sorted(begins))
    throw Error(ExitCode::internal, fmt::format("{} borders of rows for {} ranks", begins.size(), size()));
  check_gather(begins.back(), widths);
}

void DeviceCommunicator::share_rows(const float*, std::span<const std::int64_t>, std::span<const std::int64_t>,
                                    float*) {
  throw Error(ExitCode::internal, fmt::format("rows are not shared out by {}", kind()));
}

std::unique_ptr<DeviceCommunicator> make_host_device_communicator(Communicator& comm, ParallelFor& parallel,
                                                                  const DeviceCommunicatorOptions& options,
                                                                  const HostDeviceOverrides& overrides) {
  std::unique_ptr<HostDeviceCommunicator> device;
  if (comm.size() == 1) {
    device = make_self_device(parallel, options);
  } else {
    auto* mpi = dynamic_cast<MpiCommunicator*>(&comm);
    if (!mpi) throw Error(ExitCode::internal, "ranks that do not talk by MPI cannot share a device communicator");
    device = make_device(*mpi, parallel, options, overrides);
  }
  self_test(comm, *device, options, host_copies());
  device->reset_stats();
  return device;
}

std::unique_ptr<DeviceCommunicator> make_host_device_communicator(Communicator& comm, ParallelFor& parallel,
                                                                  const DeviceCommunicatorOptions& options) {
  return make_host_device_communicator(comm, parallel, options, {});
}

std::uint64_t shared_window_bytes(int local_ranks, const DeviceCommunicatorOptions& options) {
  return ShmWindow::bytes_for(window_shape(local_ranks, true, options));
}

}  // namespace tpinfer
