#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/paint.hpp"
#include "core/json.hpp"
#include "memory/machine_facts.hpp"
#include "memory/machine_memory.hpp"
#include "runtime/rank_survey.hpp"

namespace tpinfer {

/// A library, as built with and as it runs here; empty: it is not there.
struct LibraryVersions {
  std::string name, built, running;
  std::string note;  ///< why it is not there
};

/// All that `tpinfer info` tells, on rank 0.
struct InfoFacts {
  std::string version, commit, build_type, compiler;
  std::vector<LibraryVersions> libraries;
  std::string host;  ///< of rank 0
  MachineFacts machine;
  MachineMemory memory;
  UsableMemory usable;
  std::vector<std::string> kernel_sets;  ///< that this processor can run, weakest first
  std::string kernel_set;                ///< that a job would use; empty where TPINFER_ISA is at fault
  std::vector<std::pair<std::string, std::string>> environment;  ///< the variables that matter, where they are set
  Launch launch;
  std::vector<RankFacts> ranks;
  std::vector<std::pair<std::string, Advice>> advice;  ///< beside the host that it is about; empty: all
};

Json info_json(const InfoFacts& facts);
std::string info_text(const InfoFacts& facts, const Paint& paint);

}  // namespace tpinfer
