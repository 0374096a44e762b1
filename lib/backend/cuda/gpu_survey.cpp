#include <fstream>

#include "backend/cuda/device_choice.hpp"
#include "backend/cuda/gpu_names.hpp"
#include "backend/cuda/nvml.hpp"
#include "core/cuda_handles.hpp"

namespace tpinfer {
namespace {

// Linux knows it by the PCI id; CUDA's own answer is for machines where it does not.
std::int32_t numa_node_of(const std::string& pci, int device) {
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  std::int32_t node = -1;
  if (file >> node && node >= 0) return node;
  int known = -1;
  if (cudaDeviceGetAttribute(&known, cudaDevAttrHostNumaId, device) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return -1;
  }
  return known;
}

std::uint64_t free_by_cuda(int device) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaSetDevice(device), fmt::format("starting CUDA device {}", device));
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  return free_bytes;
}

}  // namespace

std::vector<GpuFacts> survey_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  const Nvml nvml;
  std::vector<GpuFacts> gpus;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "asking for the properties of the device");
    char pci[32] = {};
    check(cudaDeviceGetPCIBusId(pci, sizeof pci, device), "asking for the PCI id of the device");
    GpuFacts& gpu = gpus.emplace_back();
    gpu.index = device;
    gpu.name = properties.name;
    gpu.uuid = gpu_uuid_text(properties.uuid.bytes);
    for (const char* c = pci; *c; ++c) gpu.pci += static_cast<char>(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
    gpu.numa_node = numa_node_of(gpu.pci, device);
    gpu.total_bytes = properties.totalGlobalMem;
    gpu.free_bytes = nvml.free_bytes(gpu.uuid).value_or(0);
    if (gpu.free_bytes == 0) gpu.free_bytes = free_by_cuda(device);
  }
  return gpus;
}

}  // namespace tpinfer
