#include "errors.hpp"

#include <cstdio>
#include <cstdlib>

namespace cuda_emulation {
namespace {

struct Known {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define KNOWN(error, text) \
  { error, #error, text }
constexpr Known kKnown[] = {
    KNOWN(cudaSuccess, "no error"),
    KNOWN(cudaErrorInvalidValue, "invalid argument"),
    KNOWN(cudaErrorMemoryAllocation, "out of memory"),
    KNOWN(cudaErrorInitializationError, "initialization error"),
    KNOWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    KNOWN(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    KNOWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    KNOWN(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    KNOWN(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    KNOWN(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    KNOWN(cudaErrorInvalidDevice, "invalid device ordinal"),
    KNOWN(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    KNOWN(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    KNOWN(cudaErrorNotReady, "device not ready"),
    KNOWN(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    KNOWN(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    KNOWN(cudaErrorMisalignedAddress, "misaligned address"),
    KNOWN(cudaErrorLaunchFailure, "unspecified launch failure"),
    KNOWN(cudaErrorNotPermitted, "operation not permitted"),
    KNOWN(cudaErrorNotSupported, "operation not supported"),
    KNOWN(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    KNOWN(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    KNOWN(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    KNOWN(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    KNOWN(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    KNOWN(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    KNOWN(cudaErrorGraphExecUpdateFailure,
          "the graph update was not performed because it included changes which "
          "violated constraints specific to instantiated graph update"),
    KNOWN(cudaErrorUnknown, "unknown error"),
};
#undef KNOWN

}  // namespace

cudaError_t error_named(const std::string& name) {
  for (const Known& known : kKnown)
    if (name == known.name) return known.error;
  std::fprintf(stderr, "CUDA emulation: there is no error \"%s\"\n", name.c_str());
  std::abort();
}

bool stays(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

}  // namespace cuda_emulation

const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& known : cuda_emulation::kKnown)
    if (known.error == error) return known.text;
  return "unrecognized error code";
}

const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& known : cuda_emulation::kKnown)
    if (known.error == error) return known.name;
  return "unrecognized error code";
}
