#include "app/plan_report.hpp"

namespace tpinfer {
namespace {

// A slice as boxes of the stored tensor.
Json slices_json(const PlannedTensor& tensor, const std::vector<PlannedSlice>& slices) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    const std::int64_t extent = slices[rank].extent();
    const std::uint64_t bytes = slice_bytes(tensor, slices[rank]);
    for (const Range& range : slices[rank].ranges) {
      std::vector<std::int64_t> start(tensor.shape.size(), 0);
      std::vector<std::int64_t> count = tensor.shape;
      start[static_cast<std::size_t>(slices[rank].axis)] = range.begin;
      count[static_cast<std::size_t>(slices[rank].axis)] = range.count();
      list.push_back(
          {{"rank", rank},
           {"start", start},
           {"count", count},
           {"bytes", bytes / static_cast<std::uint64_t>(extent) * static_cast<std::uint64_t>(range.count())}});
    }
  }
  return list;
}

Json tensors_json(const ShardingPlan& plan) {
  Json list = Json::array();
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    list.push_back({{"name", tensor.name},
                    {"role", tensor.role},
                    {"dtype", safetensors_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"split", split_name(tensor.split)},
                    {"slices", slices_json(tensor, plan.slices[t])}});
  }
  return list;
}

Json rank_json(const PlannedRank& rank, const RankMemoryPlan& memory) {
  Json roles = Json::object();
  for (const auto& [role, bytes] : rank.bytes_by_role) roles[role] = bytes;
  return {{"rank", rank.share.rank},       {"weights_bytes", memory.weights},   {"file_bytes", rank.file_bytes},
          {"weights_by_role", roles},      {"kv_cache_bytes", memory.kv_cache}, {"workspace_bytes", memory.workspace},
          {"total_bytes", memory.total()}, {"budget_bytes", memory.budget},     {"fits", memory.fits}};
}

Json model_json(const ModelFolder& model, const ShardingPlan& plan) {
  return {{"path", model.path},
          {"family", model.spec.family->name},
          {"architecture", model.spec.architecture},
          {"parameters", model.claims.parameters},
          {"dtype_stored", dtype_name(model.claims.stored_dtype)},
          {"dtype_compute", dtype_name(plan.compute_dtype)},
          {"files", model.checkpoint.files().size()},
          {"file_bytes", model.checkpoint.file_bytes()}};
}

Json prompts_json(const std::optional<PromptReport>& prompts) {
  if (!prompts) return nullptr;
  Json troubles = Json::array();
  for (const auto& [id, reason] : prompts->cannot_run) troubles.push_back({{"id", id}, {"reason", reason}});
  return {{"count", prompts->count},
          {"longest_id", prompts->longest_id},
          {"longest_tokens", prompts->longest},
          {"longest_with_answer", prompts->longest_sequence},
          {"cannot_run", troubles}};
}

}  // namespace

Json plan_json(const ModelFolder& model, const PlannedCount& count, const std::optional<PromptReport>& prompts,
               bool tensors) {
  const MemoryPlan& memory = count.memory;
  const std::string& hint = count.refused.empty() ? memory.hint : count.refused;
  Json out{{"model", model_json(model, count.plan)},
           {"world_size", count.ranks},
           {"fits", memory.fits},
           {"kv_cache_tokens", memory.kv_tokens()},
           {"kv_cache_sequences", memory.kv_tokens() / memory.limits.max_model_len},
           {"max_model_len", memory.limits.max_model_len},
           {"ranks", Json::array()},
           {"hint", hint.empty() ? Json(nullptr) : Json(hint)},
           {"prompts", prompts_json(prompts)}};
  for (std::size_t r = 0; r < memory.ranks.size(); ++r)
    out["ranks"].push_back(rank_json(count.plan.per_rank[r], memory.ranks[r]));
  if (tensors) out["tensors"] = tensors_json(count.plan);
  return out;
}

}  // namespace tpinfer
