#include <cstdio>
#include <cstring>

#include "world.hpp"

using namespace cuda_emulation;

namespace {

cudaError_t check_device(int device) {
  const auto count = static_cast<int>(world().devices.size());
  if (count == 0) return cudaErrorNoDevice;
  return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

const GpuConfig& config_of(int device) { return world().devices[static_cast<std::size_t>(device)].config; }

}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Entry entry("cudaGetDeviceCount");
  if (entry.error != cudaSuccess) return entry.error;
  *count = static_cast<int>(world().devices.size());
  return finish(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  Entry entry("cudaGetDevice");
  if (entry.error != cudaSuccess) return entry.error;
  *device = current_device();
  return finish(world().devices.empty() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  Entry entry("cudaSetDevice");
  if (entry.error != cudaSuccess) return entry.error;
  if (const cudaError_t status = check_device(device); status != cudaSuccess) return finish(status);
  set_current_device(device);
  world().start(device);
  return finish(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Entry entry("cudaGetDeviceProperties");
  if (entry.error != cudaSuccess) return entry.error;
  if (const cudaError_t status = check_device(device); status != cudaSuccess) return finish(status);
  const GpuConfig& config = config_of(device);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", config.name.c_str());
  properties->uuid = config.uuid;
  properties->totalGlobalMem = config.total;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = config.major >= 9 ? 227 << 10 : 163 << 10;
  properties->sharedMemPerMultiprocessor = properties->sharedMemPerBlockOptin + 1024;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->multiProcessorCount = 4;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->l2CacheSize = 4 << 20;
  properties->major = config.major;
  properties->minor = config.minor;
  properties->pciDomainID = config.pci_domain;
  properties->pciBusID = config.pci_bus;
  return finish(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, device); status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(properties.sharedMemPerBlockOptin); break;
    case cudaDevAttrHostNumaId: *value = config_of(device).numa; break;
    default: return finish(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  Entry entry("cudaDeviceGetPCIBusId");
  if (entry.error != cudaSuccess) return entry.error;
  if (const cudaError_t status = check_device(device); status != cudaSuccess) return finish(status);
  std::snprintf(text, static_cast<std::size_t>(length), "%04x:%02x:00.0", config_of(device).pci_domain,
                config_of(device).pci_bus);
  return finish(cudaSuccess);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  Entry entry("cudaMemGetInfo");
  if (entry.error != cudaSuccess) return entry.error;
  if (const cudaError_t status = check_device(current_device()); status != cudaSuccess) return finish(status);
  const Device& device = world().start(current_device());
  *free_bytes = world().free_bytes(device);
  *total_bytes = device.config.total;
  return finish(cudaSuccess);
}
