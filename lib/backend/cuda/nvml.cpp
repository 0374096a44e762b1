#include "backend/cuda/nvml.hpp"

#include <dlfcn.h>

namespace tpinfer {
namespace {

// As in nvml.h, whose binary interface is stable.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;

struct CloseLibrary {
  void operator()(void* library) const noexcept { ::dlclose(library); }
};

}  // namespace

struct Nvml::Functions {
  std::unique_ptr<void, CloseLibrary> library;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*handle_by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*memory_info)(NvmlDevice, NvmlMemory*) = nullptr;

  template <class Function>
  bool find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library.get(), name));
    return function != nullptr;
  }
};

Nvml::Nvml() {
  auto functions = std::make_unique<Functions>();
  functions->library.reset(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!functions->library) return;
  const bool found = functions->find("nvmlInit_v2", functions->init) &&
                     functions->find("nvmlShutdown", functions->shutdown) &&
                     functions->find("nvmlDeviceGetHandleByUUID", functions->handle_by_uuid) &&
                     functions->find("nvmlDeviceGetMemoryInfo", functions->memory_info);
  if (found && functions->init() == kSuccess) functions_ = std::move(functions);
}

Nvml::~Nvml() {
  if (functions_) functions_->shutdown();
}

std::optional<std::uint64_t> Nvml::free_bytes(const std::string& uuid) const {
  NvmlDevice device = nullptr;
  NvmlMemory memory{};
  if (!functions_ || functions_->handle_by_uuid(uuid.c_str(), &device) != kSuccess ||
      functions_->memory_info(device, &memory) != kSuccess)
    return std::nullopt;
  return memory.free;
}

}  // namespace tpinfer
