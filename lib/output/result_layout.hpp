#pragma once

#include <functional>

#include "output/result_names.hpp"
#include "output/run_result.hpp"

/// The layout of the result file, said once for writing and reading: `Io` is GroupWriter or GroupReader, `Result` a
/// RunResult, constant when written. README, section "Result file", says the same for users.
namespace tpinfer {

inline constexpr const char* kSeconds = "s";
inline constexpr const char* kBytes = "B";

/// Attributes of the file but format, format_version and attempts, which writer and reader treat apart.
template <class Io, class Result>
void describe_run(Io& root, Result& result) {
  root.named_attribute("state", result.state, kRunStateNames);
  root.attribute("run_id", result.run_id);
  root.attribute("created", result.created);
  root.attribute("finished", result.finished);
  root.attribute("tpinfer_version", result.tpinfer_version);
  root.attribute("numeric_version", result.numeric_version);
  root.attribute("kernel_set", result.kernel_set);
  root.attribute("git_commit", result.git_commit);
  root.attribute("hostname", result.hostname);
  root.attribute("command", result.command);
  root.attribute("mpi_library", result.mpi_library);
  root.attribute("hdf5_version", result.hdf5_version);
  root.attribute("cuda_driver", result.cuda_driver);
  root.attribute("nccl_version", result.nccl_version);
  root.attribute("slurm_job_id", result.slurm_job_id);
}

template <class Io, class Result>
void describe_job_and_model(Io& root, Result& result) {
  auto job = root.group("job");
  job.text("source", result.job_source);
  job.text("resolved", result.job_resolved);
  auto model = root.group("model");
  model.attribute("path", result.model_path);
  model.attribute("architecture", result.architecture);
  model.attribute("family", result.family);
  model.attribute("parameters", result.parameters);
  model.attribute("dtype_stored", result.dtype_stored);
  model.attribute("dtype_compute", result.dtype_compute);
  model.attribute("vocab_size", result.vocab_size);
  model.attribute("layers", result.layers);
  model.attribute("heads", result.heads);
  model.attribute("kv_heads", result.kv_heads);
  model.attribute("head_dim", result.head_dim);
  model.text("config.json", result.config_json);
  if (!model.keeps("files")) return;
  auto files = model.table("files", result.model_files);
  files.text_column("name", &RunIdentity::File::name);
  files.column("bytes", &RunIdentity::File::bytes, kBytes);
  files.column("hash", &RunIdentity::File::hash);
}

template <class Io, class Result>
void describe_plan(Io& root, Result& result) {
  auto plan = root.group("plan");
  plan.attribute("world_size", result.world_size);
  plan.attribute("tensor_parallel_size", result.tensor_parallel_size);
  plan.attribute("data_parallel_size", result.data_parallel_size);
  plan.attribute("digest", result.plan_digest);
  plan.attribute("reproducible", result.reproducible);
  auto tensors = plan.table("tensors", result.plan_tensors);
  tensors.text_column("name", &PlanTensorRow::name);
  tensors.text_column("role", &PlanTensorRow::role);
  tensors.text_column("dtype", &PlanTensorRow::dtype);
  tensors.text_column("split", &PlanTensorRow::split);
  tensors.ragged("shape", "shape_offsets", &PlanTensorRow::shape);
  auto slices = plan.table("slices", result.plan_slices);
  slices.column("tensor", &PlanSliceRow::tensor);
  slices.column("rank", &PlanSliceRow::rank);
  slices.column("axis", &PlanSliceRow::axis);
  slices.column("start", &PlanSliceRow::start);
  slices.column("count", &PlanSliceRow::count);
  slices.column("bytes", &PlanSliceRow::bytes, kBytes);
  auto memory = plan.table("memory", result.memory_planned);
  memory.texts("class_names", result.memory_classes);
  memory.matrix("bytes", std::identity{}, result.memory_classes.size(), kBytes);
}

template <class Table>
void describe_prompts(Table prompts) {
  prompts.text_column("id", &PromptRow::id);
  prompts.text_column("text", &PromptRow::text);
  prompts.ragged("token_ids", "token_offsets", &PromptRow::token_ids, "n_tokens");
  prompts.enum_column("status", &PromptRow::status, kPromptStatusNames);
  prompts.text_column("error", &PromptRow::error);
  prompts.text_column("meta", &PromptRow::meta);
  if (prompts.keeps("content_hash")) prompts.column("content_hash", &PromptRow::content);
  prompts.per_token("prompt_logprobs", &PromptRow::prompt_logprobs);
  prompts.top_columns("prompt_top_ids", "prompt_top_logprobs", &PromptRow::prompt_top_k, &PromptRow::prompt_top_ids,
                      &PromptRow::prompt_top_logprobs);
}

/// `answers` is in order of prompt_index, sample_index.
template <class Table>
void describe_answers(Table answers) {
  answers.column("prompt_index", &AnswerRow::prompt_index);
  answers.column("sample_index", &AnswerRow::sample_index);
  answers.lossy_text_column("text", "text_lossy", &AnswerRow::text, &AnswerRow::text_lossy);
  answers.ragged("token_ids", "token_offsets", &AnswerRow::token_ids, "n_tokens");
  answers.enum_column("finish_reason", &AnswerRow::finish_reason, kFinishReasonNames);
  answers.column("cumulative_logprob", &AnswerRow::cumulative_logprob);
  answers.column("t_queued", &AnswerRow::t_queued, kSeconds);
  answers.column("t_first_token", &AnswerRow::t_first_token, kSeconds);
  answers.column("t_finished", &AnswerRow::t_finished, kSeconds);
  answers.column("attempt", &AnswerRow::attempt);
  answers.per_token("logprobs", &AnswerRow::logprobs);
  answers.top_columns("top_ids", "top_logprobs", &AnswerRow::top_k, &AnswerRow::top_ids, &AnswerRow::top_logprobs);
}

template <class Table, class Result>
void describe_rank_weights(Table weights, Result& result) {
  using Weights = RankRow::Weights;
  const auto of = [](auto field) {
    return [field](auto& row) -> auto& { return row.weights.*field; };
  };
  const auto by_class = [&](const char* name, auto field) {
    weights.matrix(name, of(field), result.weight_classes.size(), kBytes);
  };
  weights.column("bytes_planned", of(&Weights::bytes_planned), kBytes);
  weights.column("bytes_touched", of(&Weights::bytes_touched), kBytes);
  weights.column("bytes_read", of(&Weights::bytes_read), kBytes);
  weights.column("bytes_owned", of(&Weights::bytes_owned), kBytes);
  weights.column("n_tensors", of(&Weights::n_tensors));
  weights.column("load_seconds", of(&Weights::load_seconds), kSeconds);
  weights.column("checksum", of(&Weights::checksum));
  weights.texts("class_names", result.weight_classes);
  by_class("planned_by_class", &Weights::planned_by_class);
  by_class("touched_by_class", &Weights::touched_by_class);
  by_class("read_by_class", &Weights::read_by_class);
  by_class("owned_by_class", &Weights::owned_by_class);
}

template <class Io, class Result>
void describe_ranks(Io& root, Result& result) {
  auto ranks = root.table("ranks", result.ranks);
  ranks.column("rank", &RankRow::rank);
  ranks.text_column("host", &RankRow::host);
  ranks.column("local_rank", &RankRow::local_rank);
  ranks.column("replica", &RankRow::replica);
  ranks.column("tp_rank", &RankRow::tp_rank);
  ranks.text_column("device_kind", &RankRow::device_kind);
  ranks.text_column("device_name", &RankRow::device_name);
  ranks.text_column("device_uuid", &RankRow::device_uuid);
  ranks.text_column("device_pci", &RankRow::device_pci);
  ranks.column("numa_node", &RankRow::numa_node);
  ranks.text_column("cpu_list", &RankRow::cpu_list);
  describe_rank_weights(ranks.subtable("weights"), result);

  using Memory = RankRow::Memory;
  auto memory = ranks.subtable("memory");
  memory.constant_texts("phase_names", kMemoryPhases);
  memory.by_phase("device_used", &Memory::device_used, kBytes);
  memory.by_phase("device_free", &Memory::device_free, kBytes);
  memory.by_phase("anonymous", &Memory::anonymous, kBytes);
  memory.by_phase("file_backed", &Memory::file_backed, kBytes);
  memory.by_phase("shared", &Memory::shared, kBytes);
  memory.by_phase("rss", &Memory::rss, kBytes);
  memory.by_phase("rss_peak", &Memory::rss_peak, kBytes);

  using Time = RankRow::Time;
  const auto of = [](auto field) {
    return [field](auto& row) -> auto& { return row.time.*field; };
  };
  auto time = ranks.subtable("time");
  time.column("compute", of(&Time::compute), kSeconds);
  time.column("communication", of(&Time::communication), kSeconds);
  time.column("sampling", of(&Time::sampling), kSeconds);
  time.column("wait", of(&Time::wait), kSeconds);
  time.column("io", of(&Time::io), kSeconds);
  time.column("collectives", of(&Time::collectives));
  time.column("collective_bytes", of(&Time::collective_bytes), kBytes);
}

template <class Table>
void describe_steps(Table steps) {
  steps.column("t", &StepRow::t, kSeconds);
  steps.column("sequences", &StepRow::sequences);
  steps.column("tokens", &StepRow::tokens);
  steps.column("kv_blocks_used", &StepRow::kv_blocks_used);
  steps.column("waiting", &StepRow::waiting);
  steps.column("preemptions", &StepRow::preemptions);
  steps.column("shared_tokens", &StepRow::shared_tokens);
}

template <class Io, class Result>
void describe_history(Io& root, Result& result) {
  auto events = root.table("events", result.events);
  events.column("time", &EventRow::time, kSeconds);
  events.column("rank", &EventRow::rank);
  events.text_column("level", &EventRow::level);
  events.text_column("message", &EventRow::message);
  auto attempts = root.table("attempts", result.attempts);
  attempts.text_column("start", &AttemptRow::start);
  attempts.text_column("end", &AttemptRow::end);
  attempts.text_column("reason", &AttemptRow::reason);
  attempts.column("prompts_done", &AttemptRow::prompts_done);
}

}  // namespace tpinfer
