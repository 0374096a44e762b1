#include "core/bytes.hpp"
#include "shard/sharding_plan.hpp"

namespace tpinfer {
namespace {

void put_range(ByteWriter& w, const Range& r) {
  w.put(r.begin);
  w.put(r.end);
}

Range get_range(ByteReader& r) {
  const auto begin = r.get<std::int64_t>();
  return {begin, r.get<std::int64_t>()};
}

void put_tensor(ByteWriter& w, const PlannedTensor& t, const std::vector<PlannedSlice>& slices) {
  w.put(t.name);
  w.put(t.role);
  w.put(t.split);
  w.put(t.dtype);
  w.put(t.shape);
  w.put(t.expected);
  w.put(t.file);
  w.put(t.offset);
  for (const PlannedSlice& slice : slices) {
    w.put(slice.axis);
    w.put(static_cast<std::uint32_t>(slice.ranges.size()));
    for (const Range& range : slice.ranges) put_range(w, range);
  }
}

void get_tensor(ByteReader& r, ShardingPlan& plan) {
  PlannedTensor t;
  t.name = r.get_string();
  t.role = r.get_string();
  t.split = r.get<Split>();
  t.dtype = r.get<DType>();
  r.get_list(t.shape);
  t.expected = r.get<std::uint32_t>();
  t.file = r.get<std::uint32_t>();
  t.offset = r.get<std::uint64_t>();
  std::vector<PlannedSlice> slices(static_cast<std::size_t>(plan.ranks));
  for (PlannedSlice& slice : slices) {
    slice.axis = r.get<std::int32_t>();
    slice.ranges.resize(r.get<std::uint32_t>());
    for (Range& range : slice.ranges) range = get_range(r);
  }
  plan.tensors.push_back(std::move(t));
  plan.slices.push_back(std::move(slices));
}

void put_rank(ByteWriter& w, const PlannedRank& rank) {
  w.put(rank.share.rank);
  w.put(rank.share.ranks);
  for (const Range& range : {rank.share.query_heads, rank.share.kv_heads, rank.share.channels,
                             rank.share.expert_channels, rank.share.shared_channels, rank.share.vocab})
    put_range(w, range);
  w.put(rank.weights_bytes);
  w.put(rank.file_bytes);
  w.put(static_cast<std::uint32_t>(rank.bytes_by_role.size()));
  for (const auto& [role, bytes] : rank.bytes_by_role) {
    w.put(role);
    w.put(bytes);
  }
}

PlannedRank get_rank(ByteReader& r) {
  PlannedRank rank;
  rank.share.rank = r.get<int>();
  rank.share.ranks = r.get<int>();
  for (Range* range : {&rank.share.query_heads, &rank.share.kv_heads, &rank.share.channels, &rank.share.expert_channels,
                       &rank.share.shared_channels, &rank.share.vocab})
    *range = get_range(r);
  rank.weights_bytes = r.get<std::uint64_t>();
  rank.file_bytes = r.get<std::uint64_t>();
  for (auto left = r.get<std::uint32_t>(); left > 0; --left) {
    std::string role = r.get_string();
    rank.bytes_by_role[std::move(role)] = r.get<std::uint64_t>();
  }
  return rank;
}

}  // namespace

std::vector<std::byte> encode(const ShardingPlan& plan) {
  ByteWriter w;
  w.put(plan.ranks);
  w.put(plan.compute_dtype);
  w.put(plan.stored_dtype);
  w.put(plan.parameters);
  w.put(static_cast<std::uint64_t>(plan.files.size()));
  for (const PlanFile& file : plan.files) {
    w.put(file.path);
    w.put(file.bytes);
    w.put(file.header_bytes);
    w.put(file.header_hash);
    w.put(file.modified);
  }
  for (const PlannedRank& rank : plan.per_rank) put_rank(w, rank);
  w.put(static_cast<std::uint64_t>(plan.tensors.size()));
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) put_tensor(w, plan.tensors[t], plan.slices[t]);
  w.put(static_cast<std::uint64_t>(plan.ignored.size()));
  for (const std::string& name : plan.ignored) w.put(name);
  return w.take();
}

ShardingPlan decode_plan(std::span<const std::byte> bytes) {
  ByteReader r(bytes);
  ShardingPlan plan;
  plan.ranks = r.get<int>();
  plan.compute_dtype = r.get<DType>();
  plan.stored_dtype = r.get<DType>();
  plan.parameters = r.get<std::uint64_t>();
  for (auto left = r.get<std::uint64_t>(); left > 0; --left) {
    PlanFile file{.path = r.get_string()};
    file.bytes = r.get<std::uint64_t>();
    file.header_bytes = r.get<std::uint64_t>();
    file.header_hash = r.get<std::uint64_t>();
    file.modified = r.get<std::int64_t>();
    plan.files.push_back(std::move(file));
  }
  for (int rank = 0; rank < plan.ranks; ++rank) plan.per_rank.push_back(get_rank(r));
  for (auto left = r.get<std::uint64_t>(); left > 0; --left) get_tensor(r, plan);
  for (auto left = r.get<std::uint64_t>(); left > 0; --left) plan.ignored.push_back(r.get_string());
  return plan;
}

std::string plan_digest(std::span<const std::byte> encoded) { return fmt::format("{:016x}", hash_bytes(encoded)); }

}  // namespace tpinfer
