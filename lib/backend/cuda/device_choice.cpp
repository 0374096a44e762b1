#include "backend/cuda/device_choice.hpp"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace tpinfer {
namespace {

/// Ranks and GPUs in pairs, as many as possible: augmenting paths.
class Pairing {
 public:
  explicit Pairing(const std::vector<std::vector<std::string>>& uuids) : uuids_(uuids), chosen_(uuids.size(), -1) {}

  bool give(std::size_t rank) {
    seen_.clear();
    return augment(rank);
  }
  const std::vector<int>& chosen() const noexcept { return chosen_; }

 private:
  // A free one first, else one whose owner can take another.
  bool augment(std::size_t rank) {
    for (const bool displace : {false, true})
      for (std::size_t i = 0; i < uuids_[rank].size(); ++i) {
        const std::string& uuid = uuids_[rank][i];
        const auto owner = owners_.find(uuid);
        if ((owner != owners_.end()) != displace) continue;
        if (displace && (!seen_.insert(uuid).second || !augment(owner->second))) continue;
        owners_[uuid] = rank;
        chosen_[rank] = static_cast<int>(i);
        return true;
      }
    return false;
  }

  const std::vector<std::vector<std::string>>& uuids_;
  std::vector<int> chosen_;
  std::map<std::string, std::size_t> owners_;
  std::set<std::string> seen_;  ///< displaced already in this search
};

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Topology owner(topology);
  return hwloc_topology_load(topology) == 0 ? std::move(owner) : nullptr;
}

}  // namespace

std::vector<int> assign_gpus(const std::vector<std::vector<std::string>>& uuids) {
  Pairing pairing(uuids);
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) pairing.give(rank);
  std::vector<int> chosen = pairing.chosen();
  std::map<std::string, int> ranks_on;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank)
    if (chosen[rank] >= 0) ++ranks_on[uuids[rank][static_cast<std::size_t>(chosen[rank])]];
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    if (chosen[rank] >= 0 || uuids[rank].empty()) continue;
    const auto least =
        std::ranges::min_element(uuids[rank], {}, [&](const std::string& uuid) { return ranks_on[uuid]; });
    ++ranks_on[*least];
    chosen[rank] = static_cast<int>(least - uuids[rank].begin());
  }
  return chosen;
}

bool bind_near(int numa_node) {
  if (numa_node < 0) return false;
  const Topology topology = load_topology();
  if (!topology) return false;
  hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology.get(), static_cast<unsigned>(numa_node));
  if (!node) return false;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t near;
  CPU_ZERO(&near);
  for (int cpu = hwloc_bitmap_first(node->cpuset); cpu >= 0 && cpu < CPU_SETSIZE;
       cpu = hwloc_bitmap_next(node->cpuset, cpu))
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &near);
  if (CPU_COUNT(&near) == 0 || sched_setaffinity(0, sizeof near, &near) != 0) return false;
  // Preferred, not required: a full node must not end the job.
  hwloc_set_membind(topology.get(), node->nodeset, HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
  return true;
}

}  // namespace tpinfer
