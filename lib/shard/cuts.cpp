#include "shard/cuts.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

template <class CutsAt>
std::vector<std::int64_t> leaf_cuts(CutsAt&& cuts_at, std::int64_t most) {
  std::set<std::int64_t> points;
  for (const int ranks : kReproducibleRanks) {
    if (ranks > most) break;
    const auto cuts = cuts_at(ranks);
    points.insert(cuts.begin(), cuts.end());
  }
  return {points.begin(), points.end()};
}

}  // namespace

std::vector<std::int64_t> even_cuts(std::int64_t total, int parts) {
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 0; i <= parts; ++i) cuts.push_back(i * (total / parts) + std::min(i, total % parts));
  return cuts;
}

std::int64_t channel_unit(std::int64_t width) noexcept { return width >= 512 ? 16 : width >= 64 ? 4 : 1; }

std::vector<std::int64_t> channel_cuts(std::int64_t width, int parts) {
  const std::int64_t unit = channel_unit(width);
  std::vector<std::int64_t> cuts = even_cuts((width + unit - 1) / unit, parts);
  for (std::int64_t& cut : cuts) cut = std::min(cut * unit, width);
  return cuts;
}

std::vector<std::int64_t> query_head_cuts(std::int64_t q_heads, std::int64_t kv_heads, int parts) {
  if (parts > q_heads)
    throw Error(ExitCode::does_not_fit, fmt::format("{} ranks, but the model has only {} query heads", parts, q_heads),
                fmt::format("use at most {} ranks", q_heads));
  const std::int64_t group = q_heads / kv_heads;
  if (parts <= kv_heads) {
    std::vector<std::int64_t> cuts = even_cuts(kv_heads, parts);
    for (std::int64_t& cut : cuts) cut *= group;
    return cuts;
  }
  std::vector<std::int64_t> cuts{0};
  const std::vector<std::int64_t> sharers = even_cuts(parts, static_cast<int>(kv_heads));
  for (std::size_t kv = 0; kv + 1 < sharers.size(); ++kv) {
    const std::vector<std::int64_t> inside = even_cuts(group, static_cast<int>(sharers[kv + 1] - sharers[kv]));
    for (std::size_t i = 1; i < inside.size(); ++i) cuts.push_back(static_cast<std::int64_t>(kv) * group + inside[i]);
  }
  return cuts;
}

std::vector<std::int64_t> channel_leaf_cuts(std::int64_t width) {
  return leaf_cuts([&](int n) { return channel_cuts(width, n); }, width);
}

std::vector<std::int64_t> query_head_leaf_cuts(std::int64_t q_heads, std::int64_t kv_heads) {
  return leaf_cuts([&](int n) { return query_head_cuts(q_heads, kv_heads, n); }, q_heads);
}

std::vector<std::int64_t> local_leaf_ends(std::span<const std::int64_t> global_cuts, Range mine) {
  std::vector<std::int64_t> ends;
  for (const std::int64_t cut : global_cuts)
    if (cut > mine.begin && cut < mine.end) ends.push_back(cut - mine.begin);
  if (mine.count() > 0) ends.push_back(mine.count());
  return ends;
}

bool is_reproducible_count(int ranks) noexcept {
  return std::ranges::find(kReproducibleRanks, ranks) != std::end(kReproducibleRanks);
}

}  // namespace tpinfer
