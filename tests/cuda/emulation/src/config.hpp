#pragma once

#include <string>
#include <vector>

#include "cuda_runtime_api.h"

namespace cuda_emulation {

/// One GPU of the host, as TPINFER_EMULATION_GPUS describes it.
struct GpuConfig {
  std::string name = "Emulated GPU";
  cudaUUID_t uuid{};
  std::size_t total = std::size_t{1} << 30;
  std::size_t used = 0;     ///< by other programs
  std::size_t context = 0;  ///< taken by each process that starts the GPU
  int pci_domain = 0, pci_bus = 0;
  int numa = -1;
  int host_index = 0;  ///< among all GPUs of the host
  int major = 9, minor = 0;
};

/// "GPU-00000000-...".
std::string uuid_text(const cudaUUID_t& uuid);
/// All GPUs that this process's cgroup lets through, by TPINFER_EMULATION_GPUS and TPINFER_EMULATION_DEVICES. Ends the
/// program with a sentence when they cannot be read.
std::vector<GpuConfig> read_gpus();
/// Which of them CUDA shows, in its order: CUDA_VISIBLE_DEVICES up to the first entry that names none; none when an
/// entry comes twice.
std::vector<int> visible_gpus(const std::vector<GpuConfig>& gpus);
/// "80GiB", "512MiB", "4096".
std::size_t read_size(const std::string& text);
std::vector<std::string> split(const std::string& text, char separator);
std::string environment(const char* name, const char* otherwise = "");

}  // namespace cuda_emulation
