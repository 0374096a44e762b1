#include "runtime/rank_survey.hpp"

#include <algorithm>
#include <set>

#include "core/bytes.hpp"
#include "memory/cores.hpp"
#include "memory/proc_text.hpp"

namespace tpinfer {
namespace {

std::vector<std::byte> encode(const RankFacts& facts) {
  ByteWriter w;
  w.put(facts.rank);
  w.put(facts.local_rank);
  w.put(facts.host_number);
  w.put(facts.build);
  w.put(facts.cores);
  w.put(facts.cores_online);
  w.put(facts.numa_nodes);
  w.put(facts.kernel_set);
  w.put(facts.memory);
  w.put(facts.memory_set_by);
  w.put(static_cast<std::uint64_t>(facts.host_advice.size()));
  for (const Advice& advice : facts.host_advice) {
    w.put(advice.good);
    w.put(advice.what);
    w.put(advice.hint);
  }
  return w.take();
}

RankFacts decode(std::span<const std::byte> bytes) {
  ByteReader r(bytes);
  RankFacts facts;
  facts.rank = r.get<std::int32_t>();
  facts.local_rank = r.get<std::int32_t>();
  facts.host_number = r.get<std::int64_t>();
  facts.build = r.get_string();
  facts.cores = r.get_list<std::int32_t>();
  facts.cores_online = r.get<std::int32_t>();
  facts.numa_nodes = r.get<std::int32_t>();
  facts.kernel_set = r.get_string();
  facts.memory = r.get<std::uint64_t>();
  facts.memory_set_by = r.get_string();
  const auto count = r.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    Advice& advice = facts.host_advice.emplace_back();
    advice.good = r.get<bool>();
    advice.what = r.get_string();
    advice.hint = r.get_string();
  }
  return facts;
}

// The ranks of each host, in order.
std::vector<std::vector<const RankFacts*>> by_host(const std::vector<RankFacts>& ranks) {
  std::vector<std::vector<const RankFacts*>> hosts;
  for (const RankFacts& facts : ranks) {
    const auto at =
        std::ranges::find_if(hosts, [&](const auto& host) { return host.front()->host_number == facts.host_number; });
    (at == hosts.end() ? hosts.emplace_back() : *at).push_back(&facts);
  }
  return hosts;
}

std::string cores_of(std::size_t count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

void check_alike(const std::vector<RankFacts>& ranks, std::vector<Advice>& out) {
  const RankFacts& first = ranks.front();
  for (const RankFacts& facts : ranks) {
    if (facts.build == first.build) continue;
    out.push_back(
        {false, fmt::format("rank {} on {} runs {}, rank 0 {}", facts.rank, facts.seat.host, facts.build, first.build),
         "install the same build on all hosts"});
    break;
  }
  for (const RankFacts& facts : ranks) {
    if (facts.kernel_set == first.kernel_set) continue;
    out.push_back({false,
                   fmt::format("rank {} on {} chooses the kernels {}, rank 0 {}: a job uses the lesser on all",
                               facts.rank, facts.seat.host, facts.kernel_set, first.kernel_set),
                   "use hosts of one kind, or be content with the lesser kernels"});
    break;
  }
}

void check_binding(const std::vector<const RankFacts*>& host, const Launch& launch, std::vector<Advice>& out) {
  const std::string& name = host.front()->seat.host;
  std::set<std::int32_t> all;
  for (const RankFacts* rank : host) all.insert(rank->cores.begin(), rank->cores.end());
  const auto online = static_cast<std::size_t>(std::max(0, host.front()->cores_online));
  if (host.size() > all.size()) {
    out.push_back({false, fmt::format("{} ranks on {} share {}", host.size(), name, cores_of(all.size())),
                   "start at most one rank for each core"});
  } else if (launch.words == "mpirun" && all.size() < online) {
    const std::vector<int> used(all.begin(), all.end());
    out.push_back(
        {false,
         fmt::format("the ranks on {} may use {} of {} ({})", name, all.size(), cores_of(online), core_list(used)),
         "mpirun --bind-to none lets the ranks share all of them out"});
  } else if (host.size() > 1) {
    out.push_back({true, fmt::format("{} ranks on {} may use {}", host.size(), name, cores_of(all.size())), {}});
  }
}

// One rank that goes over several nodes reads much of its weights from memory that is far away.
void check_numa(const std::vector<const RankFacts*>& host, std::vector<Advice>& out) {
  const auto nodes = static_cast<std::size_t>(std::max(0, host.front()->numa_nodes));
  if (nodes < 2) return;
  const std::string& name = host.front()->seat.host;
  const bool bound = std::ranges::all_of(
      host, [](const RankFacts* rank) { return static_cast<std::int32_t>(rank->cores.size()) < rank->cores_online; });
  if (bound && host.size() >= nodes)
    out.push_back(
        {true, fmt::format("{} has {} NUMA nodes, and its {} ranks are bound", name, nodes, host.size()), {}});
  else
    out.push_back({false,
                   fmt::format("{} has {} NUMA nodes, which its {} rank{} {} not bound to", name, nodes, host.size(),
                               host.size() == 1 ? "" : "s", host.size() == 1 ? "is" : "are"),
                   "start a rank for each: mpirun --map-by ppr:1:numa --bind-to numa, or srun --cpu-bind=ldoms"});
}

void check_gpus(const std::vector<RankFacts>& ranks, std::vector<Advice>& out) {
  const auto seeing = std::ranges::count_if(ranks, [](const RankFacts& facts) { return facts.seat.sees_gpu; });
  if (seeing == 0) return;
  if (seeing < std::ssize(ranks)) {
    const auto blind = std::ranges::find_if(ranks, [](const RankFacts& facts) { return !facts.seat.sees_gpu; });
    out.push_back({false,
                   fmt::format("rank {} on {} has no GPU ({}), so jobs with parallel.device: auto run on the CPU",
                               blind->rank, blind->seat.host, blind->seat.why_none),
                   "start ranks only where there are GPUs, and look at CUDA_VISIBLE_DEVICES (nvidia-smi -L)"});
  }
  const auto shared = std::ranges::find_if(ranks, [](const RankFacts& facts) { return facts.seat.sharers.size() > 1; });
  if (shared != ranks.end())
    out.push_back({false,
                   fmt::format("{} ranks on {} would share the GPU {}", shared->seat.sharers.size(), shared->seat.host,
                               shared->seat.gpu.uuid),
                   "start one rank for each GPU, or set parallel.share_gpus: true"});
  else if (seeing == std::ssize(ranks))
    out.push_back({true, fmt::format("{} has a GPU of its own", ranks.size() == 1 ? "the rank" : "each rank"), {}});
}

int number_in(const Environment& environment, const char* name) {
  const auto text = environment(name);
  const auto value = text ? whole_number(*text) : std::nullopt;
  return value && *value < 1000000 ? static_cast<int>(*value) : 0;
}

}  // namespace

std::vector<RankFacts> survey_ranks(Communicator& comm, RankFacts mine) {
  mine.rank = comm.rank();
  mine.local_rank = comm.local_rank();
  mine.host_number = comm.host();
  if (mine.local_rank != 0) mine.host_advice.clear();
  const GpuChoice gpus = GpuChoice::survey(comm);
  const auto all = comm.gather(encode(mine), 0, "telling of ranks");
  std::vector<RankFacts> ranks;
  for (const auto& bytes : all) {
    ranks.push_back(decode(bytes));
    ranks.back().seat = gpus.seat(ranks.back().rank);
  }
  return ranks;
}

Launch find_launch(const Environment& environment) {
  if (environment("OMPI_COMM_WORLD_SIZE")) return {.by_launcher = true, .words = "mpirun"};
  const bool step = environment("SLURM_STEP_ID").has_value();
  if (environment("PMIX_RANK") || environment("PMI_RANK"))
    return {.by_launcher = true, .words = step ? "srun" : "a launcher with PMI"};
  // Open MPI would end the program here: Slurm tells it of no other ranks
  const int tasks = step ? number_in(environment, "SLURM_STEP_NUM_TASKS") : 0;
  return {.by_launcher = false, .words = "no launcher", .lonely_tasks = tasks > 1 ? tasks : 0};
}

std::vector<Advice> check_ranks(const std::vector<RankFacts>& ranks, const Launch& launch) {
  std::vector<Advice> out;
  if (launch.lonely_tasks > 0)
    out.push_back(
        {false, fmt::format("srun has started {} tasks without PMIx: they do not find each other", launch.lonely_tasks),
         "srun --mpi=pmix, or mpirun inside of sbatch or salloc"});
  if (ranks.empty()) return out;
  check_alike(ranks, out);
  for (const auto& host : by_host(ranks)) {
    check_binding(host, launch, out);
    check_numa(host, out);
  }
  check_gpus(ranks, out);
  return out;
}

}  // namespace tpinfer
