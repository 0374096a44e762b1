// A libnvidia-ml.so.1 for the emulated GPUs: what the program opens at run time.
#include <atomic>
#include <cstring>
#include <deque>

#include "config.hpp"
#include "faults.hpp"
#include "shared_use.hpp"

using namespace cuda_emulation;

struct nvmlDevice_st {
  GpuConfig config;
};

namespace {

std::deque<nvmlDevice_st>& gpus() {
  static std::deque<nvmlDevice_st> all;
  return all;
}

struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kDriverNotLoaded = 9;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  FaultPlan faults;
  gpus().clear();
  for (const GpuConfig& gpu : read_gpus()) gpus().push_back({gpu});
  return faults.visit("nvmlInit") ? kDriverNotLoaded : kSuccess;
}

int nvmlShutdown() { return kSuccess; }

int nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_st** device) {
  for (nvmlDevice_st& gpu : gpus()) {
    if (uuid_text(gpu.config.uuid) != uuid) continue;
    *device = &gpu;
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_st* device, Memory* memory) {
  static SharedUse* const shared = map_shared_use();
  const GpuConfig& config = device->config;
  const std::uint64_t used = config.used + (shared ? shared->bytes[config.host_index].load() : 0);
  *memory = {config.total, used < config.total ? config.total - used : 0, used};
  return kSuccess;
}
}
