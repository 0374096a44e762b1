#pragma once

#include "backend/cpu/kv_store.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// Backend::rotate_and_store: the same plain float32 arithmetic in every kernel set (two products, one sum).
void cpu_rotate_and_store(ParallelFor& parallel, const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope,
                          const StepBatch& batch, CpuKvStore& kv, std::int64_t layer, const Tensor& q);

}  // namespace tpinfer
