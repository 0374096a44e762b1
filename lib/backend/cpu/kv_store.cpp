#include "backend/cpu/kv_store.hpp"

#include "core/error.hpp"

namespace tpinfer {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

const KvSpec& checked(const KvSpec& spec) {
  const bool block_ok =
      spec.block_size >= 16 && spec.block_size <= 256 && (spec.block_size & (spec.block_size - 1)) == 0;
  if (!block_ok || !is_weight_type(spec.dtype) || spec.layers < 0 || spec.kv_heads < 0 || spec.head_dim < 1 ||
      spec.blocks < 0)
    throw Error(
        ExitCode::internal,
        fmt::format("a KV cache of {} layers, {} heads of {} channels, {} blocks of {} positions in {} was asked "
                    "for",
                    spec.layers, spec.kv_heads, spec.head_dim, spec.blocks, spec.block_size, dtype_name(spec.dtype)));
  return spec;
}

}  // namespace

KvLayout::KvLayout(const KvSpec& spec)
    : step(spec.dtype == DType::bfloat16 ? 2 : 1),
      element(static_cast<std::int64_t>(dtype_size(spec.dtype))),
      head_dim(spec.head_dim),
      padded_dim(round_up(spec.head_dim, 16)),
      key_dim(round_up(spec.head_dim, step)),
      block_size(spec.block_size),
      value_offset(key_dim * kTilePositions * element),
      tile_bytes(value_offset + padded_dim * kTilePositions * element),
      head_bytes(tile_bytes * (spec.block_size / kTilePositions)),
      block_bytes(head_bytes * spec.kv_heads),
      layer_bytes(block_bytes * spec.blocks) {}

CpuKvStore::CpuKvStore(const KvSpec& spec)
    : KvStore(checked(spec)), layout_(spec), memory_(static_cast<std::size_t>(layout_.layer_bytes * spec.layers)) {}

}  // namespace tpinfer
