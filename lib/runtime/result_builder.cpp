#include "runtime/result_builder.hpp"

#include <fmt/chrono.h>

#include <algorithm>

#include "core/exact_sum.hpp"
#include "output/result_writer.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostSteps = 10000;

void describe_model(const Preparation& p, RunResult& r) {
  const ModelSpec& spec = p.model->spec;
  r.model_path = p.model->path;
  r.architecture = spec.architecture;
  r.family = spec.family->name;
  r.dtype_stored = dtype_name(p.plan.stored_dtype);
  r.dtype_compute = dtype_name(p.plan.compute_dtype);
  r.config_json = p.model->text.config;
  r.parameters = p.plan.parameters;
  r.vocab_size = spec.vocab;
  r.layers = spec.layers;
  r.heads = spec.q_heads;
  r.kv_heads = spec.kv_heads;
  r.head_dim = spec.head_dim;
}

void describe_plan(const Preparation& p, const std::vector<int>& tp_ranks, RunResult& r) {
  r.world_size = static_cast<std::int32_t>(tp_ranks.size());
  r.tensor_parallel_size = p.plan.ranks;
  r.data_parallel_size = r.world_size / p.plan.ranks;
  for (std::size_t t = 0; t < p.plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = p.plan.tensors[t];
    r.plan_tensors.push_back({.name = tensor.name,
                              .role = tensor.role,
                              .dtype = std::string(dtype_name(tensor.dtype)),
                              .split = std::string(split_name(tensor.split)),
                              .shape = tensor.shape});
    for (std::size_t rank = 0; rank < p.plan.slices[t].size(); ++rank) {
      const PlannedSlice& slice = p.plan.slices[t][rank];
      const std::int64_t extent = slice.extent();
      const std::uint64_t bytes = slice_bytes(tensor, slice);
      for (const Range& range : slice.ranges)
        r.plan_slices.push_back(
            {.tensor = static_cast<std::int64_t>(t),
             .rank = static_cast<std::int32_t>(rank),
             .axis = slice.axis,
             .start = range.begin,
             .count = range.count(),
             .bytes = bytes / static_cast<std::uint64_t>(extent) * static_cast<std::uint64_t>(range.count())});
    }
  }
  r.memory_classes = {"weights", "kv_cache", "workspace"};
  for (const int place : tp_ranks) {
    const RankMemoryPlan& rank = p.memory.ranks[static_cast<std::size_t>(place)];
    r.memory_planned.push_back({rank.weights, rank.kv_cache, rank.workspace});
  }
  r.weight_classes = p.plan.role_names();
}

}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

void describe_run(const Job& job, const Preparation& prepared, const RunFacts& facts, RunResult& result) {
  result.created = facts.created;
  result.finished = utc_now();
  result.kernel_set = facts.kernel_set;
  result.tpinfer_version = facts.tpinfer_version;
  result.git_commit = facts.git_commit;
  result.hdf5_version = hdf5_library_version();
  result.hostname = facts.hostname;
  result.command = facts.command;
  result.mpi_library = facts.mpi_library;
  result.slurm_job_id = facts.slurm_job_id;
  result.numeric_version = kNumericVersion;
  result.job_source = job.source;
  result.job_resolved = resolved_yaml(job, prepared.generation_config);
  result.plan_digest = facts.plan_digest;
  result.reproducible = facts.reproducible;
  describe_model(prepared, result);
  describe_plan(prepared, facts.tp_ranks, result);
}

std::vector<StepRow> StepSeries::take() {
  if (seen_ > 0 && (seen_ - 1) % stride_ != 0) {
    if (rows_.size() == kMostSteps) rows_.pop_back();
    rows_.push_back(last_);
  }
  return std::move(rows_);
}

void StepSeries::add(const StepRow& row) {
  last_ = row;
  if (seen_++ % stride_ != 0) return;
  if (rows_.size() == kMostSteps) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < rows_.size(); i += 2) rows_[out++] = rows_[i];
    rows_.resize(out);
    stride_ *= 2;
  }
  rows_.push_back(row);
}

}  // namespace tpinfer
