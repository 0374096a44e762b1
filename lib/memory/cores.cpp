#include "memory/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>

namespace tpinfer {

std::vector<int> allowed_cores(int process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int threads_of_rank(int cores, int online, std::optional<double> quota, int ranks) {
  ranks = std::max(1, ranks);
  int threads = cores < online ? cores : cores / ranks;
  if (quota) threads = std::min(threads, static_cast<int>(*quota / ranks));
  return std::max(1, threads);
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += "-" + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tpinfer
