#include "backend/cpu/rotate.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace tpinfer {
namespace {

/// Elements of qkv below which one thread is faster than a dispatch.
constexpr std::int64_t kWorthSharing = 1 << 15;
/// Channels of a head that lie on the stack meanwhile.
constexpr std::int64_t kNearChannels = 1024;

void rotate(const float* __restrict x, std::int64_t head_dim, const RopeTable& rope, std::int64_t position,
            float* __restrict out) {
  const std::int64_t half = rope.cos == nullptr ? 0 : rope.rotary_dim / 2;
  const float* __restrict cos = rope.cos + position * half;
  const float* __restrict sin = rope.sin + position * half;
  for (std::int64_t i = 0; i < (rope.adjacent ? half : 0); ++i) {
    out[2 * i] = x[2 * i] * cos[i] - x[2 * i + 1] * sin[i];
    out[2 * i + 1] = x[2 * i + 1] * cos[i] + x[2 * i] * sin[i];
  }
  for (std::int64_t i = 0; i < (rope.adjacent ? 0 : half); ++i) {
    out[i] = x[i] * cos[i] - x[i + half] * sin[i];
    out[i + half] = x[i + half] * cos[i] + x[i] * sin[i];
  }
  std::copy(x + 2 * half, x + head_dim, out + 2 * half);
}

/// One element in the type of the cache.
struct Float32 {
  static constexpr std::int64_t kStep = 1;  ///< KvLayout::step
  using Bits = float;
  static Bits from(float x) noexcept { return x; }
};
struct Float16 {
  static constexpr std::int64_t kStep = 1;
  using Bits = std::uint16_t;
  static Bits from(float x) noexcept { return float_to_float16(x); }
};
struct Bfloat16 {
  static constexpr std::int64_t kStep = 2;
  using Bits = std::uint16_t;
  static Bits from(float x) noexcept { return float_to_bfloat16(x); }
};

/// Places as KvLayout::key and value say, with the step known to the compiler.
template <class Type>
void store_key(const KvLayout& layout, std::byte* tile, std::int64_t lane, const float* k) noexcept {
  constexpr std::int64_t kStep = Type::kStep;
  auto* to = reinterpret_cast<typename Type::Bits*>(tile) + lane * kStep;
  for (std::int64_t c = 0; c < layout.head_dim; ++c)
    to[c / kStep * kStep * kTilePositions + c % kStep] = Type::from(k[c]);
}

template <class Type>
void store_value(const KvLayout& layout, std::byte* tile, std::int64_t lane, const float* v) noexcept {
  constexpr std::int64_t kStep = Type::kStep;
  auto* to = reinterpret_cast<typename Type::Bits*>(tile + layout.value(0, lane));
  for (std::int64_t c = 0; c < layout.head_dim; ++c) to[c * kStep] = Type::from(v[c]);
}

struct Work {
  const Tensor& qkv;
  const AttentionHeads& heads;
  const RopeTable& rope;
  const StepBatch& batch;
  CpuKvStore& kv;
  std::byte* layer;
  const Tensor& q;

  const float* input(std::int64_t row, std::int64_t head) const {
    return qkv.floats() + row * qkv.cols + head * heads.head_dim;
  }
  std::byte* tile(std::int64_t slot, std::int64_t head) const {
    const std::int64_t size = kv.layout().block_size;
    return layer + kv.layout().tile(slot / size, head, slot % size);
  }

  template <class Type>
  void query_row(std::int64_t row, float* turned) const {
    for (std::int64_t h = 0; h < heads.q_heads; ++h) {
      rotate(input(row, h), heads.head_dim, rope, batch.positions[row], turned);
      auto* out = static_cast<typename Type::Bits*>(q.data) + row * q.cols + h * heads.head_dim;
      for (std::int64_t c = 0; c < heads.head_dim; ++c) out[c] = Type::from(turned[c]);
    }
  }

  template <class Type>
  void kv_head(std::int64_t head, std::int64_t begin, std::int64_t end, float* turned) const {
    for (std::int64_t r = begin; r < end; ++r) {
      std::byte* to = tile(batch.slots[r], head);
      const std::int64_t lane = batch.slots[r] % kTilePositions;
      rotate(input(r, heads.q_heads + head), heads.head_dim, rope, batch.positions[r], turned);
      store_key<Type>(kv.layout(), to, lane, turned);
      store_value<Type>(kv.layout(), to, lane, input(r, heads.q_heads + heads.kv_heads + head));
    }
  }

  /// Queries row by row as they lie in memory; keys and values head by head, since adjacent rows share a tile.
  void run(std::int64_t begin, std::int64_t end) const {
    float near[kNearChannels];
    std::vector<float> far;
    if (heads.head_dim > kNearChannels) far.resize(static_cast<std::size_t>(heads.head_dim));
    float* turned = far.empty() ? near : far.data();
    for (std::int64_t r = begin; r < end; r += kTilePositions) {
      const std::int64_t last = std::min(r + kTilePositions, end);
      for (std::int64_t i = r; i < last; ++i)
        q.dtype == DType::bfloat16 ? query_row<Bfloat16>(i, turned) : query_row<Float32>(i, turned);
      for (std::int64_t h = 0; h < heads.kv_heads; ++h) {
        switch (kv.spec().dtype) {
          case DType::bfloat16: kv_head<Bfloat16>(h, r, last, turned); break;
          case DType::float16: kv_head<Float16>(h, r, last, turned); break;
          default: kv_head<Float32>(h, r, last, turned); break;
        }
      }
    }
  }
};

}  // namespace

void cpu_rotate_and_store(ParallelFor& parallel, const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope,
                          const StepBatch& batch, CpuKvStore& kv, std::int64_t layer, const Tensor& q) {
  const KvSpec& spec = kv.spec();
  if (spec.kv_heads != heads.kv_heads || spec.head_dim != heads.head_dim || qkv.cols != heads.qkv_cols() || layer < 0 ||
      layer >= spec.layers)
    throw Error(
        ExitCode::internal,
        fmt::format("layer {} with {} KV heads of {} channels and {} columns does not fit a cache of {} layers "
                    "with {} heads of {}",
                    layer, heads.kv_heads, heads.head_dim, qkv.cols, spec.layers, spec.kv_heads, spec.head_dim));
  const Work work{qkv, heads, rope, batch, kv, kv.layer(layer), q};
  if (batch.rows * qkv.cols < kWorthSharing) return work.run(0, batch.rows);
  const std::int64_t share = (batch.rows + parallel.threads() - 1) / parallel.threads();
  parallel.run(batch.rows, std::min(share, kTilePositions),
               [&](std::int64_t begin, std::int64_t end) { work.run(begin, end); });
}

}  // namespace tpinfer
