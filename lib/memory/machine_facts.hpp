#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tpinfer {

/// A part of the memory of this host, and the processors near it.
struct NumaNode {
  int number = 0;
  std::string cores;                  ///< "0-15,32-47"
  std::uint64_t total = 0, free = 0;  ///< bytes
};

/// What the kernel tells of this host; empty, zero or nothing where it does not.
struct MachineFacts {
  std::string processor;              ///< its maker's name for it
  std::vector<std::string> features;  ///< of the instruction sets that kernels are made for, those it has
  int cores_online = 0;
  std::optional<double> core_quota;  ///< processors' worth of time that a control group allows
  std::vector<NumaNode> numa_nodes;
  std::string transparent_huge_pages;                 ///< always, madvise or never
  std::uint64_t huge_page_bytes = 0;                  ///< of one
  std::uint64_t huge_pages = 0, huge_pages_free = 0;  ///< set aside; not needed here
  std::uint64_t shm_total = 0, shm_free = 0;          ///< bytes of /dev/shm; 0: there is none
  std::string gpu_driver;                             ///< "570.86.15" of NVIDIA; empty: no driver is loaded
  std::optional<std::uint64_t> most_address_space;    ///< bytes of a process (ulimit -v); nothing: no limit
  std::uint64_t most_open_files = 0;                  ///< of a process (ulimit -n)
};

/// Processors' worth of time that the tightest control group of this process allows; nothing: no limit.
std::optional<double> read_core_quota(const std::filesystem::path& root = "/");

/// `root`: where proc, sys and dev are found.
MachineFacts read_machine_facts(const std::filesystem::path& root = "/");

}  // namespace tpinfer
