#include <array>

#include "backend/factory.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::array kAllSets = {KernelSet::scalar, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16};

}  // namespace

/// __builtin_cpu_supports also asks the operating system (xgetbv) whether it saves the wide registers. The levels are
/// those that CMakeLists.txt compiles for: v3 has AVX2, FMA and F16C, v4 has AVX-512 F, BW, CD, DQ and VL.
bool has_kernel_set(KernelSet set) noexcept {
  __builtin_cpu_init();
  switch (set) {
    case KernelSet::scalar: return true;
    case KernelSet::avx2: return __builtin_cpu_supports("x86-64-v3");
    case KernelSet::avx512: return __builtin_cpu_supports("x86-64-v4");
    case KernelSet::avx512_bf16: return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

std::string_view kernel_set_name(KernelSet set) noexcept {
  switch (set) {
    case KernelSet::scalar: return "scalar";
    case KernelSet::avx2: return "avx2";
    case KernelSet::avx512: return "avx512";
    case KernelSet::avx512_bf16: return "avx512-bf16";
  }
  return "unknown";
}

KernelSet best_kernel_set() noexcept {
  KernelSet best = KernelSet::scalar;
  for (const KernelSet set : kAllSets) {
    const bool slow = set == KernelSet::avx512_bf16 && __builtin_cpu_is("intel");
    if (has_kernel_set(set) && !slow) best = set;
  }
  return best;
}

KernelSet choose_kernel_set(std::string_view forced) {
  if (forced.empty()) return best_kernel_set();
  for (const KernelSet set : kAllSets) {
    if (kernel_set_name(set) != forced) continue;
    if (!has_kernel_set(set))
      throw Error(ExitCode::usage, fmt::format("TPINFER_ISA asks for {}, which this processor lacks", forced),
                  fmt::format("unset it or use {}", kernel_set_name(best_kernel_set())));
    return set;
  }
  throw Error(ExitCode::usage, fmt::format("TPINFER_ISA is \"{}\", which is no kernel set", forced),
              "use scalar, avx2, avx512 or avx512-bf16");
}

}  // namespace tpinfer
