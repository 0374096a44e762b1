#include <dlfcn.h>

#include "backend/cuda/cublas_lt.hpp"

namespace tpinfer {
namespace {

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function)
    throw Error(ExitCode::usage, fmt::format("{} has no function {}", file, name), "use engine.reproducible: batch");
}

CublasLtApi open_library() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open to the end of the process
  if (!library)
    throw Error(
        ExitCode::usage,
        fmt::format("engine.reproducible: off needs cuBLASLt on a GPU, which cannot be opened: {}", ::dlerror()),
        "put its folder into LD_LIBRARY_PATH, or use engine.reproducible: batch");
  CublasLtApi api;
  find(library, file, "cublasLtCreate", api.create);
  find(library, file, "cublasLtDestroy", api.destroy);
  find(library, file, "cublasLtGetStatusString", api.status_text);
  find(library, file, "cublasLtMatmulDescCreate", api.create_operation);
  find(library, file, "cublasLtMatmulDescDestroy", api.destroy_operation);
  find(library, file, "cublasLtMatmulDescSetAttribute", api.set_operation);
  find(library, file, "cublasLtMatrixLayoutCreate", api.create_layout);
  find(library, file, "cublasLtMatrixLayoutDestroy", api.destroy_layout);
  find(library, file, "cublasLtMatmulPreferenceCreate", api.create_preference);
  find(library, file, "cublasLtMatmulPreferenceDestroy", api.destroy_preference);
  find(library, file, "cublasLtMatmulPreferenceSetAttribute", api.set_preference);
  find(library, file, "cublasLtMatmulAlgoGetHeuristic", api.choose);
  find(library, file, "cublasLtMatmul", api.multiply);
  return api;
}

}  // namespace

const CublasLtApi& cublas_lt_api() {
  static const CublasLtApi api = open_library();
  return api;
}

}  // namespace tpinfer
