#include <dlfcn.h>

#include "comm/nccl_api.hpp"

namespace tpinfer {
namespace {

template <class Function>
void find(void* library, const char* name, NcclApi& api, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function && api.missing.empty()) api.missing = std::string("libnccl.so.2 has no function ") + name;
}

NcclApi open_library() {
  NcclApi api;
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);  // stays open to the end of the process
  if (!library) {
    const char* reason = ::dlerror();
    api.missing = std::string("NCCL cannot be opened: ") + (reason ? reason : "libnccl.so.2");
    return api;
  }
  find(library, "ncclGetVersion", api, api.version);
  find(library, "ncclGetErrorString", api, api.error_text);
  find(library, "ncclGetLastError", api, api.last_error);
  find(library, "ncclGetUniqueId", api, api.make_id);
  find(library, "ncclCommInitRank", api, api.connect);
  find(library, "ncclCommDestroy", api, api.destroy);
  find(library, "ncclCommAbort", api, api.give_up);
  find(library, "ncclCommGetAsyncError", api, api.async_error);
  find(library, "ncclAllReduce", api, api.all_reduce);
  find(library, "ncclAllGather", api, api.all_gather);
  find(library, "ncclSend", api, api.send);
  find(library, "ncclRecv", api, api.receive);
  find(library, "ncclGroupStart", api, api.begin_group);
  find(library, "ncclGroupEnd", api, api.end_group);
  return api;
}

}  // namespace

const NcclApi& nccl_api() {
  static const NcclApi api = open_library();
  return api;
}

}  // namespace tpinfer
