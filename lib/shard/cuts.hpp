#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tpinfer {

/// [begin, end) of rows, columns, heads or channels.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const noexcept { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Cut points 0 = c0 <= ... <= cn = total of `parts` parts; the first (total mod parts) parts get one more.
std::vector<std::int64_t> even_cuts(std::int64_t total, int parts);

/// Channels move in units of 16 (4 where the width is below 512, 1 where it is below 64); the last unit may be short.
std::int64_t channel_unit(std::int64_t width) noexcept;
/// Cut points of `width` MLP channels for `parts` ranks: whole units, as even as possible, first ranks one unit more.
std::vector<std::int64_t> channel_cuts(std::int64_t width, int parts);

/// Cut points of the query heads: whole KV groups while parts <= kv_heads, beyond that each group's heads over the
/// ranks that share its KV head. Error(does_not_fit) when there are more parts than query heads; it names the largest
/// usable count.
std::vector<std::int64_t> query_head_cuts(std::int64_t q_heads, std::int64_t kv_heads, int parts);

/// Cut points of the leaves of a row-parallel sum: every cut that the plans of the reproducible rank counts make. They
/// depend on the model alone.
std::vector<std::int64_t> channel_leaf_cuts(std::int64_t width);
std::vector<std::int64_t> query_head_leaf_cuts(std::int64_t q_heads, std::int64_t kv_heads);

/// Leaf ends inside `mine`, relative to its begin: the global leaf cuts that fall in it, and its own end. With a rank
/// count outside kReproducibleRanks the first and last leaf may be parts of leaves.
std::vector<std::int64_t> local_leaf_ends(std::span<const std::int64_t> global_cuts, Range mine);

/// True when answers at this rank count are bitwise those of the other reproducible counts.
bool is_reproducible_count(int ranks) noexcept;

}  // namespace tpinfer
