#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/factory.hpp"

namespace tpinfer::test {

/// The kernel sets that this processor has.
inline std::vector<KernelSet> usable_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet set : {KernelSet::scalar, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16})
    if (has_kernel_set(set)) sets.push_back(set);
  return sets;
}

/// For names of parameterised tests, which allow no hyphen.
inline std::string test_name(KernelSet set) {
  std::string name(kernel_set_name(set));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

}  // namespace tpinfer::test
