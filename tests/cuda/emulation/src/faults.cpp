#include "faults.hpp"

#include <cstdio>
#include <cstdlib>

#include "config.hpp"

namespace cuda_emulation {
namespace {

std::string own_rank() {
  return environment("OMPI_COMM_WORLD_RANK",
                     environment("PMIX_RANK", environment("SLURM_PROCID", "0").c_str()).c_str());
}

}  // namespace

FaultPlan::FaultPlan() {
  for (const std::string& text : split(environment("TPINFER_EMULATION_FAIL"), ';')) {
    const auto hash = text.find('#');
    const auto equals = text.find('=');
    const auto rank = text.find('@');
    if (text.empty()) continue;
    if (hash == std::string::npos || equals == std::string::npos || equals < hash) {
      std::fprintf(stderr, "CUDA emulation: TPINFER_EMULATION_FAIL: \"%s\" is not POINT#K=ERROR\n", text.c_str());
      std::abort();
    }
    if (rank != std::string::npos && text.substr(rank + 1) != own_rank()) continue;
    Fault fault;
    fault.point = text.substr(0, hash);
    fault.at = std::stoull(text.substr(hash + 1, equals - hash - 1));
    fault.from_then_on = text[equals - 1] == '+';
    fault.error = text.substr(equals + 1, rank == std::string::npos ? rank : rank - equals - 1);
    faults_.push_back(fault);
  }
}

const char* FaultPlan::visit(const char* point) {
  for (Fault& fault : faults_) {
    if (fault.point != point) continue;
    ++fault.visits;
    if (fault.visits == fault.at || (fault.from_then_on && fault.visits > fault.at)) return fault.error.c_str();
  }
  return nullptr;
}

}  // namespace cuda_emulation
