#pragma once

/// Attention over one block of kAttentionBlock positions, compiled once per kernel set; see simd.hpp.
///
/// The bits of a query vector depend on its own range of positions alone: scores are lane by lane, a vector's sums run
/// over tiles in ascending order, and a position that the vector does not see is never multiplied (its place in the
/// cache may hold anything, even NaN).

#include "backend/cpu/elementwise_impl.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

inline constexpr int kBlockTiles = static_cast<int>(kAttentionBlock / kTilePositions);
inline constexpr int kBlockPositions = static_cast<int>(kAttentionBlock);
inline constexpr int kScoreVectors = kScoreTile < kQueryGroup ? kScoreTile : kQueryGroup;

/// How one type of cache is multiplied. An Operand is what lies together in a tile: kStep elements for each of 16
/// lanes; a Factor is kStep elements of the query (or weights of positions), the same for all lanes.
struct FloatCache {
  using Memory = float;
  using Operand = Lanes;
  using Factor = Lanes;
  static constexpr int kStep = 1;
  static Operand operand(const Memory* p) { return load(p); }
  static Factor factor(const float* p) { return set1(*p); }
  static Lanes multiply(const Factor& f, const Operand& o, const Lanes& sum) { return mul_add(f, o, sum); }
  static Operand masked(const Operand& o, unsigned) { return o; }  // with one position there is none to leave out
  static void store_weights(float* p, const Lanes& w) { store(p, w); }
};

struct HalfCache : FloatCache {
  using Memory = std::uint16_t;
  static Operand operand(const Memory* p) { return load_half(p); }
};

struct Bfloat16Cache {
  struct Pair {
    Lanes first;
    Lanes second;
  };
  using Memory = std::uint16_t;
  using Operand = Pair;
  using Factor = Pair;
  static constexpr int kStep = 2;
  static Operand operand(const Memory* p) {
    Operand o;
    load_bfloat16_pairs(p, o.first, o.second);
    return o;
  }
  static Factor factor(const float* p) { return {set1(p[0]), set1(p[1])}; }
  static Lanes multiply(const Factor& f, const Operand& o, const Lanes& sum) {
    return mul_add(f.second, o.second, mul_add(f.first, o.first, sum));
  }
  static Operand masked(const Operand& o, unsigned keep) {
    return {(keep & 1U) != 0 ? o.first : set1(0.0F), (keep & 2U) != 0 ? o.second : set1(0.0F)};
  }
  static void store_weights(float* p, const Lanes& w) { store(p, rounded_to_bfloat16(w)); }
};

/// Positions [first, last) of a block of kAttentionBlock.
struct Range {
  int first = 0;
  int last = 0;
  bool empty() const { return first >= last; }
  int first_tile() const { return first / 16; }
  int last_tile() const { return (last + 15) / 16; }
  bool covers(int tile) const { return first <= tile * 16 && tile * 16 + 16 <= last; }
};

inline int within_block(std::int64_t position) {
  return static_cast<int>(position < 0 ? 0 : position > kAttentionBlock ? kAttentionBlock : position);
}

/// What vector `vector` sees of block `block`.
inline Range visible(const AttentionWork& work, std::int64_t vector, std::int64_t block) {
  const std::int64_t position = work.first_position + vector / work.group;
  const std::int64_t start = work.window > 0 ? position + 1 - work.window : 0;
  const std::int64_t base = block * kAttentionBlock;
  return {within_block(start - base), within_block(position + 1 - base)};
}

/// One block of positions for up to kQueryGroup vectors.
template <class Cache>
struct BlockPass {
  using Memory = typename Cache::Memory;
  static constexpr int kStep = Cache::kStep;

  const AttentionWork& work;
  float* scores;          ///< [kQueryGroup, kAttentionBlock]
  float* weights;         ///< [kQueryGroup, kAttentionBlock]
  AttentionState result;  ///< of this block alone
  const float* queries;   ///< [count, key_dim]
  int count;              ///< vectors
  std::int64_t first_vector;
  std::int64_t first_key;  ///< position of the block's first key
  Range ranges[kQueryGroup];
  const Memory* keys[kBlockTiles];
  const Memory* values[kBlockTiles];

  BlockPass(const AttentionWork& all_work, float* score_room, float* weight_room)
      : work(all_work), scores(score_room), weights(weight_room) {}

  void find_tiles(std::int64_t block) {
    const KvLayout& at = work.layout;
    for (int t = all().first_tile(); t < all().last_tile(); ++t) {
      const std::int64_t position = block * kAttentionBlock + t * kTilePositions;
      const std::byte* tile = work.head + work.blocks[position / at.block_size] * at.block_bytes +
                              position % at.block_size / kTilePositions * at.tile_bytes;
      keys[t] = reinterpret_cast<const Memory*>(tile);
      values[t] = reinterpret_cast<const Memory*>(tile + at.value_offset);
    }
  }

  /// The smallest range that holds every vector's.
  Range all() const {
    Range r{kBlockPositions, 0};
    for (int i = 0; i < count; ++i) {
      if (ranges[i].empty()) continue;
      if (ranges[i].first < r.first) r.first = ranges[i].first;
      if (ranges[i].last > r.last) r.last = ranges[i].last;
    }
    return r;
  }

  template <int Q, int T>
  [[gnu::noinline]] void score(int vector, int tile) {
    const int key_dim = static_cast<int>(work.layout.key_dim);
    Lanes sums[Q][T];
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) sums[q][t] = set1(0.0F);
    }
    const float* query = queries + vector * key_dim;
    for (int c = 0; c < key_dim; c += kStep) {
      typename Cache::Operand key[T];
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        key[t] = Cache::operand(keys[tile + t] + c * 16);
        // With few vectors memory is the limit, and V of this block is what comes next.
        if constexpr (Q < kQueryGroup) __builtin_prefetch(values[tile + t] + c * 16);
      }
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        const typename Cache::Factor factor = Cache::factor(query + q * key_dim + c);
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) sums[q][t] = Cache::multiply(factor, key[t], sums[q][t]);
      }
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) store(scores + (vector + q) * kBlockPositions + (tile + t) * 16, sums[q][t]);
    }
  }

  template <int Q, int T>
  void score_tiles(int vector, int tile, int last_tile) {
    for (; tile + T <= last_tile; tile += T) score<Q, T>(vector, tile);
    if constexpr (T > 1) score_tiles<Q, T / 2>(vector, tile, last_tile);
  }

  template <int Q>
  void score_vectors(int vector) {
    constexpr int kRatio = kScoreTile / Q;
    constexpr int kTiles = kRatio > 4 ? 4 : kRatio > 0 ? kRatio : 1;
    const Range range = all();
    for (; vector + Q <= count; vector += Q) score_tiles<Q, kTiles>(vector, range.first_tile(), range.last_tile());
    if constexpr (Q > 1) score_vectors<Q / 2>(vector);
  }

  /// Scores of vector `i`, scaled, with a soft cap and a bias by distance.
  [[gnu::noinline]] void bend(int i) {
    static constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float* s = scores + i * kBlockPositions;
    const std::int64_t vector = first_vector + i;
    const std::int64_t behind = first_key - (work.first_position + vector / work.group);
    for (int t = ranges[i].first_tile(); t < ranges[i].last_tile(); ++t) {
      Lanes x = mul(load(s + t * 16), set1(work.scale));
      if (work.soft_cap > 0.0F) x = soft_capped(x, work.soft_cap);
      if (work.slopes != nullptr) {
        const Lanes distance = add(set1(static_cast<float>(behind + t * 16)), load(kLanes));
        x = add(x, mul(set1(work.slopes[vector % work.group]), distance));
      }
      store(s + t * 16, x);
    }
  }

  /// Scores -> weights, maximum and sum. Lanes outside the range become -infinity and then 0.
  [[gnu::noinline]] void soften(int i) {
    const Range range = ranges[i];
    float* s = scores + i * kBlockPositions;
    const float none = -__builtin_inff();
    const bool bent = work.soft_cap > 0.0F || work.slopes != nullptr;
    if (bent) bend(i);
    const float scale = bent ? 1.0F : work.scale;
    Lanes top = set1(none);
    for (int t = range.first_tile(); t < range.last_tile(); ++t) {
      Lanes x = mul(load(s + t * 16), set1(scale));
      if (!range.covers(t)) {
        const int first = range.first - t * 16;
        const int last = range.last - t * 16;
        x = keep_lanes(x, first > 0 ? first : 0, last < 16 ? last : 16, none);
      }
      store(s + t * 16, x);
      top = max(top, x);
    }
    const float maximum = max_of_lanes(top);
    result.maximum[i] = maximum;
    Lanes total = set1(0.0F);
    for (int t = range.first_tile(); t < range.last_tile(); ++t) {
      const Lanes w = exponential(sub(load(s + t * 16), set1(maximum)));
      total = add(total, w);
      Cache::store_weights(weights + i * kBlockPositions + t * 16, w);
    }
    result.sum[i] = sum_of_lanes(total);
  }

  /// result.values += weights times V for tiles that Q vectors see whole.
  template <int Q, int D>
  [[gnu::noinline]] void weigh(int vector, int group, int tile, int last_tile) {
    const int padded = static_cast<int>(work.layout.padded_dim);
    Lanes sums[Q][D];
    float* out = result.values + vector * padded + group * 16;
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
      for (int d = 0; d < D; ++d) sums[q][d] = load(out + q * padded + d * 16);
    }
    for (; tile < last_tile; ++tile) {
      const float* weight = weights + vector * kBlockPositions + tile * 16;
      const Memory* value = values[tile] + group * 16 * kStep;
      for (int p = 0; p < 16; p += kStep) {
        typename Cache::Operand v[D];
#pragma GCC unroll 16
        for (int d = 0; d < D; ++d) v[d] = Cache::operand(value + p * padded + d * 16 * kStep);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
          const typename Cache::Factor factor = Cache::factor(weight + q * kBlockPositions + p);
#pragma GCC unroll 16
          for (int d = 0; d < D; ++d) sums[q][d] = Cache::multiply(factor, v[d], sums[q][d]);
        }
      }
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 16
      for (int d = 0; d < D; ++d) store(out + q * padded + d * 16, sums[q][d]);
    }
  }

  template <int Q, int D>
  void weigh_channels(int vector, int group, int tile, int last_tile) {
    const int groups = static_cast<int>(work.layout.padded_dim / 16);
    for (; group + D <= groups; group += D) weigh<Q, D>(vector, group, tile, last_tile);
    if constexpr (D > 1) weigh_channels<Q, D / 2>(vector, group, tile, last_tile);
  }

  /// A tile of which vector `i` sees a part: the same order of positions, the others left out.
  [[gnu::noinline]] void weigh_edge(int i, int tile) {
    const int padded = static_cast<int>(work.layout.padded_dim);
    const float* weight = weights + i * kBlockPositions + tile * 16;
    for (int group = 0; group < padded; group += 16) {
      float* out = result.values + i * padded + group;
      Lanes total = load(out);
      for (int p = 0; p < 16; p += kStep) {
        unsigned keep = 0;
        for (int k = 0; k < kStep; ++k) {
          const int position = tile * 16 + p + k;
          if (ranges[i].first <= position && position < ranges[i].last) keep |= 1U << k;
        }
        if (keep == 0) continue;
        const auto v = Cache::operand(values[tile] + p * padded + group * kStep);
        total = Cache::multiply(Cache::factor(weight + p), Cache::masked(v, keep), total);
      }
      store(out, total);
    }
  }

  /// Tiles [tile, last_tile) for one vector.
  void weigh_alone(int i, int tile, int last_tile) {
    constexpr int kGroups = kValueTile < 8 ? kValueTile : 8;
    while (tile < last_tile) {
      int end = tile;
      while (end < last_tile && ranges[i].covers(end)) ++end;
      if (end > tile)
        weigh_channels<1, kGroups>(i, 0, tile, end);
      else
        weigh_edge(i, end++);
      tile = end;
    }
  }

  template <int Q>
  void weigh_vectors(int vector) {
    constexpr int kGroups = kValueTile / Q > 8 ? 8 : kValueTile / Q > 0 ? kValueTile / Q : 1;
    for (; vector + Q <= count; vector += Q) {
      int first = 0;  // tiles that all Q vectors see whole
      int last = kBlockTiles;
      for (int q = vector; q < vector + Q; ++q) {
        const int whole_first = (ranges[q].first + 15) / 16;
        const int whole_last = ranges[q].last / 16;
        if (whole_first > first) first = whole_first;
        if (whole_last < last) last = whole_last;
      }
      const bool together = Q > 1 && first < last;
      for (int q = vector; q < vector + Q; ++q) {
        if (!ranges[q].empty()) weigh_alone(q, ranges[q].first_tile(), together ? first : ranges[q].last_tile());
      }
      if (!together) continue;
      weigh_channels<Q, kGroups>(vector, 0, first, last);
      for (int q = vector; q < vector + Q; ++q) weigh_alone(q, last, ranges[q].last_tile());
    }
    if constexpr (Q > 1) weigh_vectors<Q / 2>(vector);
  }

  /// Vectors [first, last) of the work, whose queries are `query_rows`.
  void run(const float* query_rows, std::int64_t first, std::int64_t last, std::int64_t block) {
    queries = query_rows;
    count = static_cast<int>(last - first);
    first_vector = first;
    first_key = block * kAttentionBlock;
    for (int i = 0; i < count; ++i) ranges[i] = visible(work, first + i, block);
    find_tiles(block);
    score_vectors<kScoreVectors>(0);
    for (int i = 0; i < count; ++i) {
      if (!ranges[i].empty()) soften(i);
    }
    __builtin_memset(result.values, 0, sizeof(float) * static_cast<std::size_t>(count * work.layout.padded_dim));
    weigh_vectors<4>(0);
  }
};

}  // namespace
}  // namespace tpinfer
