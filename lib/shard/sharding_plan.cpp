#include "shard/sharding_plan.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"

namespace tpinfer {
namespace {

PlannedSlice merged(const RoleSlice& slice, Fusion fusion) {
  PlannedSlice out{.axis = stored_axis(slice, fusion), .ranges = {}};
  for (const Piece& piece : slice.pieces) out.ranges.push_back({piece.from, piece.from + piece.count});
  std::ranges::sort(out.ranges, {}, &Range::begin);
  std::vector<Range> joined;
  for (const Range& range : out.ranges) {
    if (!joined.empty() && joined.back().end == range.begin)
      joined.back().end = range.end;
    else
      joined.push_back(range);
  }
  out.ranges = std::move(joined);
  return out;
}

std::uint64_t elements(const PlannedTensor& tensor, const PlannedSlice& slice) noexcept {
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
    count *=
        static_cast<std::uint64_t>(static_cast<std::int32_t>(axis) == slice.axis ? slice.extent() : tensor.shape[axis]);
  return count;
}

void add_tensor(const ModelSpec& spec, const ClaimedTensor& claim, ShardingPlan& plan) {
  const ExpectedTensor& expected = *claim.expected;
  PlannedTensor tensor{.name = claim.stored->name,
                       .role = role_name(expected.role, expected.bias),
                       .split = role_split(expected.role, expected.bias, expected.fusion),
                       .dtype = claim.stored->dtype,
                       .shape = claim.stored->shape,
                       .expected = static_cast<std::uint32_t>(&expected - spec.tensors.data()),
                       .file = claim.stored->file,
                       .offset = claim.stored->offset};
  std::vector<PlannedSlice> slices;
  for (PlannedRank& rank : plan.per_rank) {
    slices.push_back(merged(role_slice(spec, expected, rank.share), expected.fusion));
    const std::uint64_t count = elements(tensor, slices.back());
    rank.weights_bytes += count * dtype_size(plan.compute_dtype);
    rank.file_bytes += count * dtype_size(tensor.dtype);
    rank.bytes_by_role[tensor.role] += count * dtype_size(plan.compute_dtype);
  }
  plan.tensors.push_back(std::move(tensor));
  plan.slices.push_back(std::move(slices));
}

// How the ranks' ranges lie on one axis: all of [0, length) must be held, and twice only where that is allowed.
void prove_axis(const PlannedTensor& tensor, const std::vector<PlannedSlice>& slices, bool overlap_allowed) {
  std::vector<Range> all;
  for (const PlannedSlice& slice : slices) all.insert(all.end(), slice.ranges.begin(), slice.ranges.end());
  std::ranges::sort(all, {}, &Range::begin);
  const std::int64_t length = tensor.shape[static_cast<std::size_t>(slices.front().axis)];
  for (std::size_t rank = 0; tensor.split == Split::replicated && rank < slices.size(); ++rank)
    if (slices[rank].ranges != std::vector<Range>{{0, length}})
      throw Error(
          ExitCode::internal,
          fmt::format("the plan gives rank {} only a part of {}, which every rank needs whole", rank, tensor.name));
  std::int64_t covered = 0;
  for (const Range& range : all) {
    const bool hole = range.begin > covered;
    const bool twice = range.begin < covered && !overlap_allowed;
    if (hole || twice || range.begin < 0 || range.end > length)
      throw Error(ExitCode::internal,
                  fmt::format("the plan holds [{}, {}) of {} wrongly: [0, {}) was covered before, the axis has {}",
                              range.begin, range.end, tensor.name, covered, length));
    covered = std::max(covered, range.end);
  }
  if (covered != length)
    throw Error(ExitCode::internal,
                fmt::format("the plan covers only {} of {} positions of {}", covered, length, tensor.name));
}

}  // namespace

std::int64_t PlannedSlice::extent() const noexcept {
  std::int64_t count = 0;
  for (const Range& range : ranges) count += range.count();
  return count;
}

std::uint64_t slice_bytes(const PlannedTensor& tensor, const PlannedSlice& slice) noexcept {
  return elements(tensor, slice) * dtype_size(tensor.dtype);
}

std::vector<std::string> ShardingPlan::role_names() const {
  std::set<std::string> names;
  for (const PlannedTensor& tensor : tensors) names.insert(tensor.role);
  return {names.begin(), names.end()};
}

ShardingPlan make_sharding_plan(const ModelSpec& spec, const Checkpoint& checkpoint, const Claims& claims, int ranks,
                                DType compute_dtype) {
  ShardingPlan plan{.ranks = ranks,
                    .compute_dtype = compute_dtype,
                    .stored_dtype = claims.stored_dtype,
                    .parameters = claims.parameters,
                    .ignored = claims.ignored};
  for (const CheckpointFile& file : checkpoint.files())
    plan.files.push_back({file.path.string(), file.bytes, file.header_bytes, file.header_hash, file.modified});
  for (int rank = 0; rank < ranks; ++rank)
    plan.per_rank.push_back({.share = rank_share(spec, rank, ranks), .bytes_by_role = {}});
  for (const ClaimedTensor& claim : claims.loaded) add_tensor(spec, claim, plan);
  prove_coverage(spec, plan);
  return plan;
}

void prove_coverage(const ModelSpec& spec, const ShardingPlan& plan) {
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const ExpectedTensor& expected = spec.tensors[plan.tensors[t].expected];
    prove_axis(plan.tensors[t], plan.slices[t], may_overlap(expected.role, expected.bias));
  }
}

}  // namespace tpinfer
