#include "runtime/rank_worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/nccl.hpp"
#include "core/bytes.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "memory/cores.hpp"
#include "memory/machine_facts.hpp"
#include "memory/process_memory.hpp"

namespace tpinfer {
namespace {

enum Phase : std::size_t { kStart, kAfterLoad, kAfterKv, kPeak, kEnd, kPhases };

constexpr std::uint64_t kPaddingSlack = std::uint64_t{16} << 20;  // small matrices are mostly padding

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

int usable_cores() {
  const auto cores = static_cast<int>(allowed_cores().size());
  return threads_of_rank(cores, cores, read_core_quota(), 1);
}

int default_threads(int local_ranks) {
  const auto online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return threads_of_rank(static_cast<int>(allowed_cores().size()), online, read_core_quota(), local_ranks);
}

RankWorker::RankWorker(const RunSetup& setup, Communicator& world, Communicator& group, int replica,
                       const GpuSeat* seat)
    : setup_(setup), rank_(group.rank()), on_planning_host_(world.host() == 0) {
  row_.memory.resize(kPhases);
  if (!seat) note_memory(kStart);
  make_backend(world.local_size(), seat);
  if (seat) note_memory(kStart);  // of the GPU, when it has been started
  const DeviceInfo device = backend_->info();
  row_.rank = world.rank();
  row_.host = host_name();
  row_.local_rank = world.local_rank();
  row_.replica = replica;
  row_.tp_rank = rank_;
  row_.device_kind = device.kind;
  row_.device_name = device.name;
  row_.device_uuid = device.uuid;
  row_.numa_node = seat ? seat->gpu.numa_node : device.numa_node;
  row_.cpu_list = core_list(allowed_cores());
}

void RankWorker::make_backend(int local_ranks, const GpuSeat* seat) {
  if (!seat) {
    auto cpu = make_cpu_backend(setup_.kernel_set, setup_.threads > 0 ? setup_.threads : default_threads(local_ranks));
    parallel_ = &cpu->parallel();
    backend_ = std::move(cpu);
    return;
  }
  const bool bound = bind_near(seat->gpu.numa_node);  // before the threads and the pinned memory are made
  const int threads = bound ? std::max(1, usable_cores() / seat->neighbours) : default_threads(local_ranks);
  gpu_index_ = seat->gpu.index;
  auto gpu = make_gpu_backend({.device = gpu_index_,
                               .threads = setup_.threads > 0 ? setup_.threads : threads,
                               .any_order = setup_.any_order,
                               .graphs = setup_.gpu_graphs});
  parallel_ = &gpu->parallel();
  gpu_ = gpu.get();
  backend_ = std::move(gpu);
  row_.device_pci = seat->gpu.pci;
}

void RankWorker::note_memory(std::size_t phase) {
  const ProcessMemory now = read_process_memory();
  RankRow::Memory& note = row_.memory[phase];
  note.anonymous = std::max(note.anonymous, now.anonymous);
  note.file_backed = std::max(note.file_backed, now.file_backed);
  note.shared = std::max(note.shared, now.shared);
  note.rss = std::max(note.rss, now.rss);
  note.rss_peak = now.rss_peak;
  if (!gpu_) return;
  const GpuMemory device = gpu_->memory();
  note.device_used = std::max(note.device_used, device.total - device.free);
  note.device_free = device.free;
}

void RankWorker::watch_memory() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_ < std::chrono::milliseconds(50)) return;
  last_look_ = now;
  note_memory(kPeak);
}

void RankWorker::share_reading(Communicator& comm) {
  if (comm.size() == 1) return;
  try {
    exchange_ = std::make_unique<HostExchange>(comm, kExchangeBytes, setup_.collective_timeout);
  } catch (const Error& e) {
    if (e.code() != ExitCode::communication || comm.broken())
      throw;  // no room: alike on all ranks, each then reads for itself
  }
}

void RankWorker::load(const LoadProgress& progress) {
  try {
    weights_ = std::make_unique<RankWeights>(*backend_, setup_.spec,
                                             setup_.plan.per_rank[static_cast<std::size_t>(rank_)].share,
                                             setup_.plan.compute_dtype, setup_.partials);
  } catch (...) {
    if (exchange_) exchange_->fail();  // the others must not wait for this rank's part of the reading
    throw;
  }
  report_ = load_weights(
      *backend_, setup_.spec, setup_.plan, rank_, *weights_, exchange_.get(),
      [&](std::uint64_t done, std::uint64_t total) {
        watch_memory();
        if (progress) progress(done, total);
      },
      {.mode = setup_.read_mode, .verify_finite = setup_.verify_finite, .on_planning_host = on_planning_host_});
  check_owned();
  note_memory(kAfterLoad);
}

void RankWorker::check_owned() const {
  const std::uint64_t owned = weights_->bytes();
  if (static_cast<double>(owned) <= 1.1 * static_cast<double>(planned()) + static_cast<double>(kPaddingSlack)) return;
  std::string classes;
  const std::vector<std::string> roles = setup_.plan.role_names();
  for (std::size_t c = 0; c < roles.size(); ++c) {
    const auto& by_role = setup_.plan.per_rank[static_cast<std::size_t>(rank_)].bytes_by_role;
    const auto at = by_role.find(roles[c]);
    const std::uint64_t wanted = at == by_role.end() ? 0 : at->second;
    if (report_.by_class[c].owned > wanted + wanted / 10)
      classes += fmt::format("{}{} ({} instead of {})", classes.empty() ? "" : ", ", roles[c],
                             format_bytes(report_.by_class[c].owned), format_bytes(wanted));
  }
  throw Error(ExitCode::internal, fmt::format("rank {} owns {} of weights although {} were planned: {}", row_.rank,
                                              format_bytes(owned), format_bytes(planned()), classes));
}

void RankWorker::compare_replicated(Communicator& comm) const {
  const auto all = comm.gather(std::as_bytes(std::span(report_.common)), 0, "checksums of what ranks share");
  together(comm, "comparing what ranks share", [&] {
    std::vector<std::size_t> next(all.size(), 0);  // the sums of each rank are in the order of its parts
    const auto sum_of = [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      std::uint64_t sum = 0;
      if ((next[r] + 1) * sizeof sum > all[r].size())
        throw Error(ExitCode::internal, fmt::format("rank {} told too few checksums", rank));
      std::memcpy(&sum, all[r].data() + next[r]++ * sizeof sum, sizeof sum);
      return sum;
    };
    if (all.empty()) return;  // only rank 0 compares
    for (const CommonPart& part : common_parts(setup_.spec, setup_.plan)) {
      const std::uint64_t first = sum_of(part.ranks.front());
      for (std::size_t i = 1; i < part.ranks.size(); ++i)
        if (sum_of(part.ranks[i]) != first) fail_common(part, part.ranks[i]);
    }
  });
}

void RankWorker::fail_common(const CommonPart& part, int rank) const {
  const std::string which = part.whole ? ""
                                       : fmt::format(" ({} {} to {})", part.axis == 0 ? "rows" : "columns",
                                                     part.range.begin, part.range.end - 1);
  throw Error(ExitCode::input,
              fmt::format("rank {} read other bytes of {}{} than rank {}", rank, setup_.plan.tensors[part.tensor].name,
                          which, part.ranks.front()),
              "do all hosts see the same model folder?");
}

std::uint64_t RankWorker::common_checksum() const {
  std::uint64_t checksum = 0;
  std::size_t next = 0;
  for (const CommonPart& part : common_parts(setup_.spec, setup_.plan)) {
    if (!std::ranges::binary_search(part.ranks, rank_)) continue;
    const std::uint64_t sum = report_.common[next++];
    if (part.whole) checksum = hash_bytes(std::as_bytes(std::span(&sum, 1)), checksum);
  }
  return checksum;
}

void RankWorker::build(Communicator& comm) {
  exchange_.reset();
  const RankShare& share = setup_.plan.per_rank[static_cast<std::size_t>(rank_)].share;
  DeviceCommunicatorOptions options = gpu_collectives(setup_.spec, setup_.plan, setup_.limits, setup_.partials);
  if (!gpu_) options.most_gathered = most_gathered(setup_.spec, setup_.limits, comm.size());
  options.transport = setup_.transport;
  options.timeout = setup_.collective_timeout;
  device_comm_ = gpu_ ? make_cuda_communicator(comm, {.device = gpu_index_, .stream = gpu_->queue()}, *parallel_,
                                               options, setup_.shared_gpus)
                      : make_host_device_communicator(comm, *parallel_, options);
  together(comm, "making the cache and the buffers", [&] {
    kv_ = backend_->create_kv_store(
        kv_spec(setup_.spec, share, setup_.plan.compute_dtype, setup_.kv_block_size, setup_.kv_blocks));
    transformer_ =
        std::make_unique<Transformer>(*backend_, *device_comm_, setup_.spec, share, *weights_, *kv_, setup_.limits);
  });
  note_memory(kAfterKv);
}

RankRow RankWorker::finish() {
  note_memory(kPeak);
  note_memory(kEnd);
  for (const RankRow::Memory& phase : row_.memory) {  // the peak is at least what any phase showed
    RankRow::Memory& peak = row_.memory[kPeak];
    peak.anonymous = std::max(peak.anonymous, phase.anonymous);
    peak.file_backed = std::max(peak.file_backed, phase.file_backed);
    peak.shared = std::max(peak.shared, phase.shared);
    peak.rss = std::max(peak.rss, phase.rss);
    peak.device_used = std::max(peak.device_used, phase.device_used);
  }
  RankRow::Weights& w = row_.weights;
  w.bytes_planned = planned();
  w.bytes_owned = weights_->bytes();
  w.n_tensors = report_.tensors;
  w.load_seconds = report_.seconds;
  w.checksum = common_checksum();
  const auto& by_role = setup_.plan.per_rank[static_cast<std::size_t>(rank_)].bytes_by_role;
  const std::vector<std::string> roles = setup_.plan.role_names();
  for (std::size_t c = 0; c < roles.size(); ++c) {
    const auto at = by_role.find(roles[c]);
    w.planned_by_class.push_back(at == by_role.end() ? 0 : at->second);
    w.touched_by_class.push_back(report_.by_class[c].touched);
    w.read_by_class.push_back(report_.by_class[c].read);
    w.owned_by_class.push_back(report_.by_class[c].owned);
    w.bytes_touched += report_.by_class[c].touched;
    w.bytes_read += report_.by_class[c].read;
  }
  const CommunicationStats comm = device_comm_->stats();
  row_.time.communication = comm.seconds - comm.wait_seconds;
  row_.time.wait = comm.wait_seconds + times_.wait;
  row_.time.sampling = times_.sampling;
  row_.time.compute = std::max(0.0, times_.total - comm.seconds - times_.wait - times_.sampling);
  row_.time.io = report_.seconds;
  row_.time.collectives = comm.collectives;
  row_.time.collective_bytes = comm.bytes;
  return row_;
}

}  // namespace tpinfer
