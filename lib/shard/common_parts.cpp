#include "shard/common_parts.hpp"

#include <algorithm>

namespace tpinfer {
namespace {

struct Held {
  Range range;
  int rank = 0;
};

// The pieces of one tensor, cut wherever a piece of any rank begins or ends.
void add_parts(const PlannedTensor& tensor, std::uint32_t index, std::int32_t axis, const std::vector<Held>& pieces,
               std::vector<CommonPart>& parts) {
  std::vector<std::int64_t> cuts;
  for (const Held& held : pieces) cuts.insert(cuts.end(), {held.range.begin, held.range.end});
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const bool replicated = tensor.split == Split::replicated;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    CommonPart part{.tensor = index, .axis = axis, .range = {cuts[i], cuts[i + 1]}, .whole = replicated};
    for (const Held& held : pieces)
      if (held.range.begin <= part.range.begin && part.range.end <= held.range.end) part.ranks.push_back(held.rank);
    if (part.ranks.size() > 1 || replicated) parts.push_back(std::move(part));
  }
}

}  // namespace

std::vector<CommonPart> common_parts(const ModelSpec& spec, const ShardingPlan& plan) {
  std::vector<CommonPart> parts;
  std::vector<Held> pieces;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const ExpectedTensor& expected = spec.tensors[plan.tensors[t].expected];
    std::int32_t axis = 0;
    pieces.clear();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const RoleSlice slice = role_slice(spec, expected, plan.per_rank[static_cast<std::size_t>(rank)].share);
      axis = slice.axis;
      for (const Piece& piece : slice.pieces)
        if (piece.count > 0) pieces.push_back({{piece.from, piece.from + piece.count}, rank});
    }
    add_parts(plan.tensors[t], static_cast<std::uint32_t>(t), axis, pieces, parts);
  }
  return parts;
}

}  // namespace tpinfer
