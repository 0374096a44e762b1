#include "backend/cuda/cuda_backend.hpp"

namespace tpinfer {

std::uint64_t CudaBackend::memory_version() const noexcept {
  std::uint64_t version = tables_of_;
  for (const CudaScratch* scratch : scratches()) version += scratch->moves();
  return version;
}

void CudaBackend::require_no_graph(std::string_view what) const {
  if (recording_)
    throw Error(ExitCode::internal, fmt::format("{} cannot be part of a graph: it was not done before", what));
}

void CudaBackend::begin_graph() {
  settle();
  recording_ = true;
  // Other threads (of the collectives' watch, say) may go on with what a capture forbids.
  check(cudaStreamBeginCapture(compute_.get(), cudaStreamCaptureModeThreadLocal), "beginning to record a graph");
}

void CudaBackend::end_graph(std::uint64_t key) {
  settle();
  recording_ = false;
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(compute_.get(), &recorded), "recording a graph");
  const CudaGraph graph(recorded);
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, recorded, 0), "making a graph");
  graphs_[key] = {CudaGraphExec(ready), memory_version()};
  check(cudaGraphLaunch(ready, compute_.get()), "starting a graph");
}

bool CudaBackend::run_graph(std::uint64_t key) {
  const auto kept = graphs_.find(key);
  if (kept == graphs_.end()) return false;
  if (kept->second.version != memory_version()) {
    graphs_.erase(kept);
    return false;
  }
  settle();
  check(cudaGraphLaunch(kept->second.graph.get(), compute_.get()), "starting a graph");
  return true;
}

}  // namespace tpinfer
