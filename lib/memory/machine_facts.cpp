#include "memory/machine_facts.hpp"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "memory/cgroup.hpp"
#include "memory/proc_text.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> kFeatures = {"avx2",        "fma",         "f16c",     "avx512f",
                                                        "avx512bw",    "avx512dq",    "avx512vl", "avx512cd",
                                                        "avx512_bf16", "avx512_vnni", "amx_bf16"};

std::string first_line(const fs::path& path) {
  const std::string text = read_proc_text(path).value_or("");
  return text.substr(0, text.find('\n'));
}

// "model name\t: X" -> "X", of the first processor.
std::string value_of(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;  // a longer key
    const auto value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? "" : std::string(line.substr(value));
  }
  return {};
}

// "0-3,8" -> 5
int count_of(std::string_view list) {
  int count = 0;
  for (const std::string_view range : split(list, ',')) {
    const auto dash = range.find('-');
    const auto first = whole_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole_number(range.substr(dash + 1));
    if (first && last && *last >= *first) count += static_cast<int>(*last - *first + 1);
  }
  return count;
}

// The word in brackets: "always [madvise] never".
std::string chosen(std::string_view text) {
  const auto open = text.find('[');
  const auto close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  return std::string(text.substr(open + 1, close - open - 1));
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc()) return std::nullopt;
  return value;
}

// Version 2: "QUOTA PERIOD" or "max PERIOD" in one file; version 1: two files, a quota of -1 is none.
std::optional<double> quota_of(const CgroupFolder& folder) {
  std::string quota, period;
  if (folder.version2) {
    const std::string line = first_line(folder.path / "cpu.max");
    const auto blank = line.find(' ');
    quota = line.substr(0, blank);
    if (blank != std::string::npos) period = line.substr(blank + 1);
  } else {
    quota = first_line(folder.path / "cpu.cfs_quota_us");
    period = first_line(folder.path / "cpu.cfs_period_us");
  }
  const auto allowed = number(quota), of = number(period);
  if (!allowed || !of || *allowed <= 0 || *of <= 0) return std::nullopt;
  return *allowed / *of;
}

std::vector<NumaNode> read_numa(const fs::path& root) {
  std::vector<NumaNode> nodes;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    const auto index = whole_number(std::string_view(name).substr(4));
    if (!index) continue;
    NumaNode node{.number = static_cast<int>(*index), .cores = first_line(entry.path() / "cpulist")};
    // "Node 0 MemTotal: 12 kB"
    const std::string memory = read_proc_text(entry.path() / "meminfo").value_or("");
    const std::string prefix = "Node " + std::to_string(*index) + " ";
    node.total = number_after(memory, prefix + "MemTotal").value_or(0) * 1024;
    node.free = number_after(memory, prefix + "MemFree").value_or(0) * 1024;
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

void read_processor(const fs::path& root, MachineFacts& facts) {
  const std::string text = read_proc_text(root / "proc/cpuinfo").value_or("");
  facts.processor = value_of(text, "model name");
  const std::string flags = value_of(text, "flags");
  const auto words = split(flags, ' ');
  for (const std::string_view feature : kFeatures)
    if (std::ranges::find(words, feature) != words.end()) facts.features.emplace_back(feature);
  facts.cores_online = count_of(first_line(root / "sys/devices/system/cpu/online"));
  facts.core_quota = read_core_quota(root);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue ...": the first word that begins with a digit
std::string read_driver(const fs::path& root) {
  const std::string line = first_line(root / "proc/driver/nvidia/version");
  for (const std::string_view word : split(line, ' '))
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return std::string(word);
  return {};
}

}  // namespace

std::optional<double> read_core_quota(const fs::path& root) {
  std::optional<double> least;
  for (const CgroupFolder& folder : cgroup_folders(root, "cpu"))
    if (const auto quota = quota_of(folder)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

MachineFacts read_machine_facts(const fs::path& root) {
  MachineFacts facts;
  read_processor(root, facts);
  facts.numa_nodes = read_numa(root);
  facts.transparent_huge_pages = chosen(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  const std::string memory = read_proc_text(root / "proc/meminfo").value_or("");
  facts.huge_page_bytes = number_after(memory, "Hugepagesize").value_or(0) * 1024;
  facts.huge_pages = number_after(memory, "HugePages_Total").value_or(0);
  facts.huge_pages_free = number_after(memory, "HugePages_Free").value_or(0);
  struct statvfs shm = {};
  if (::statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    facts.shm_total = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
    facts.shm_free = static_cast<std::uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  facts.gpu_driver = read_driver(root);
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) facts.most_address_space = limit.rlim_cur;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.most_open_files = limit.rlim_cur;
  return facts;
}

}  // namespace tpinfer
