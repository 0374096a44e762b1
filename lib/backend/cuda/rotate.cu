#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/kv_layout.cuh"

namespace tpinfer::cuda {
namespace {

/// Channel c of a head, rotated.
__device__ float rotated(const float* head, int c, int half, bool adjacent, const float* cos, const float* sin) {
  if (c >= 2 * half) return head[c];
  if (adjacent) {
    const int i = c / 2;
    return c % 2 == 0 ? head[c] * cos[i] - head[c + 1] * sin[i] : head[c] * cos[i] + head[c - 1] * sin[i];
  }
  if (c < half) return head[c] * cos[c] - head[c + half] * sin[c];
  return head[c] * cos[c - half] + head[c - half] * sin[c - half];
}

template <class T>
__global__ void rotate_kernel(const float* qkv, int q_heads, RopeTable rope, const std::int32_t* positions,
                              const std::int32_t* slots, KvView<T> kv, T* q) {
  const int cols = (q_heads + 2 * kv.kv_heads) * kv.head_dim;
  const auto col = static_cast<int>(element_column());
  if (col >= cols) return;
  const int head = col / kv.head_dim;
  const int c = col % kv.head_dim;
  const float* from = qkv + element_row() * cols + head * kv.head_dim;
  const std::int32_t slot = slots[blockIdx.x];
  if (slot < 0) return;  // padding
  if (head >= q_heads + kv.kv_heads) {
    kv.value(slot / kv.block_size, head - q_heads - kv.kv_heads, slot % kv.block_size)[c * kValueTile] =
        from_float<T>(from[c]);
    return;
  }
  const int half = rope.cos ? static_cast<int>(rope.rotary_dim / 2) : 0;
  const std::int64_t angles = static_cast<std::int64_t>(positions[blockIdx.x]) * half;
  const T turned = from_float<T>(rotated(from, c, half, rope.adjacent, rope.cos + angles, rope.sin + angles));
  if (head < q_heads) {
    q[element_row() * q_heads * kv.head_dim + col] = turned;
    return;
  }
  kv.key(slot / kv.block_size, head - q_heads, slot % kv.block_size)[c] = turned;
}

}  // namespace

void rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope, const StepBatch& batch,
                      const KvSpec& spec, void* layer, const Tensor& q, cudaStream_t stream) {
  with_type(spec.dtype, layer, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    launch(rotate_kernel<T>, element_shape(batch.rows, qkv.cols), stream, qkv.floats(), static_cast<int>(heads.q_heads),
           rope, batch.positions, batch.slots, kv_view(spec, typed), static_cast<T*>(q.data));
  });
}

}  // namespace tpinfer::cuda
