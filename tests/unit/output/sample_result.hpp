#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <string>

#include "output/result_names.hpp"
#include "output/run_result.hpp"

namespace tpinfer::test {

using namespace std::string_literals;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline RankRow sample_rank(std::int32_t rank) {
  const auto n = static_cast<std::uint64_t>(rank);
  RankRow row;
  row.rank = rank;
  row.host = "node-" + std::to_string(rank / 2);
  row.local_rank = rank % 2;
  row.replica = 0;
  row.tp_rank = rank;
  row.device_kind = "cpu";
  row.device_name = "Prozessor „Ä“";
  row.device_uuid = rank == 0 ? "" : "uuid-" + std::to_string(rank);
  row.device_pci = rank == 0 ? "" : "0000:" + std::to_string(rank) + "0:00.0";
  row.numa_node = rank == 2 ? -1 : rank;
  row.cpu_list = "0-1";
  row.weights = {.bytes_planned = 1000 + n,
                 .bytes_touched = 4096 + n,
                 .bytes_read = 2000 + n,
                 .bytes_owned = 1010 + n,
                 .n_tensors = 12,
                 .load_seconds = 0.5 + rank,
                 .checksum = 0xFFFFFFFFFFFFFFF0ULL + n,
                 .planned_by_class = {600 + n, 400},
                 .touched_by_class = {4000, 96 + n},
                 .read_by_class = {1500, 500 + n},
                 .owned_by_class = {605 + n, 405}};
  for (std::uint64_t phase = 0; phase < std::size(kMemoryPhases); ++phase) {
    const std::uint64_t base = 1000 * (phase + 1) + n;
    row.memory.push_back({base, base + 10, base + 20, base + 30, base + 40, base + 50, base + 60});
  }
  row.time = {1.25 + rank, 0.5, 0.125, 0.0625, 0.03125, 77 + n, 88000 + n};
  return row;
}

inline void add_sample_prompts(RunResult& r) {
  r.prompts.resize(5);
  r.prompts[0] = {.id = "q1",
                  .text = "Grüße 👋",
                  .token_ids = {1, 15, 7},
                  .status = PromptStatus::done,
                  .error = "",
                  .meta = R"({"a": 1})",
                  .prompt_logprobs = {kNaN, -1.5F, -0.25F},
                  .prompt_top_k = 2,
                  .prompt_top_ids = {-1, -1, 15, 3, 7, 9},
                  .prompt_top_logprobs = {kNaN, kNaN, -1.5F, -2.0F, -0.25F, -3.0F}};
  r.prompts[1].id = "日本";
  r.prompts[1].token_ids = {5};
  r.prompts[1].status = PromptStatus::done;
  r.prompts[2].id = "bad:3";
  r.prompts[2].text = "too long";
  r.prompts[2].status = PromptStatus::failed;
  r.prompts[2].error = "prompt 'bad:3' has 9000 tokens, the model takes 4096";
  r.prompts[3].id = "nul";
  r.prompts[3].text = "a\0b"s;
  r.prompts[3].token_ids = {97, 0, 98};
  r.prompts[3].status = PromptStatus::skipped;
  r.prompts[3].error = "skipped as the job asks";
  r.prompts[4].id = "later";
}

/// Three answers, out of order; the first two of prompt 0.
inline void add_sample_answers(RunResult& r) {
  r.answers.resize(3);
  auto& second = r.answers[0];
  second.prompt_index = 1;
  second.text = "über\n\uFFFD";
  second.text_lossy = true;
  second.token_ids = {4, 5};
  second.logprobs = {-0.5F, -0.75F};
  second.top_k = 1;
  second.top_ids = {4, 6};
  second.top_logprobs = {-0.5F, -0.625F};
  second.finish_reason = FinishReason::stop_string;
  second.cumulative_logprob = -1.25;
  second.t_queued = 0.25;
  second.t_first_token = 1.5;
  second.t_finished = 2.75;
  second.attempt = 1;
  auto& empty = r.answers[1];
  empty.sample_index = 1;
  empty.finish_reason = FinishReason::length;
  auto& first = r.answers[2];
  first.text = "a\0b😀"s;
  first.token_ids = {97, 0, 98, 300};
  first.logprobs = {-0.1F, -0.2F, -0.3F, -0.4F};
  first.top_k = 2;
  first.top_ids = {97, 1, 0, 2, 98, 3, 300, 4};
  first.top_logprobs = {-0.1F, -5.0F, -0.2F, -6.0F, -0.3F, -7.0F, -0.4F, -8.0F};
  first.finish_reason = FinishReason::stop;
  first.cumulative_logprob = -1.0;
  first.t_queued = 0.125;
  first.t_first_token = 0.5;
  first.t_finished = 1.0;
}

/// A result that has something in every column.
inline RunResult sample_result() {
  RunResult r;
  r.state = RunState::partial;
  r.run_id = "run-1";
  r.created = "2026-01-02T03:04:05Z";
  r.finished = "2026-01-02T03:05:05Z";
  r.tpinfer_version = "0.1.0";
  r.kernel_set = "avx2";
  r.git_commit = "abc";
  r.hostname = "node-0";
  r.command = "tpinfer job.yaml --set 'name=ü'";
  r.mpi_library = "MPI 4.1";
  r.hdf5_version = "1.10.8";
  r.cuda_driver = "";
  r.nccl_version = "";
  r.slurm_job_id = "42";
  r.numeric_version = 3;
  r.job_source = "model: M\nprompts: P\n";
  r.job_resolved = "version: 1\n";
  r.model_path = "/models/Modell ä";
  r.architecture = "AnyForCausalLM";
  r.family = "any";
  r.dtype_stored = "bfloat16";
  r.dtype_compute = "float32";
  r.config_json = R"({"hidden_size": 64})";
  r.model_files = {{"config.json", 612, 0xFEDCBA9876543210ULL}, {"model.safetensors", 4'000'000'000, 7}};
  r.parameters = 12'345'678'901;
  r.vocab_size = 32'002;
  r.layers = 2;
  r.heads = 6;
  r.kv_heads = 3;
  r.head_dim = 16;
  r.world_size = 3;
  r.tensor_parallel_size = 3;
  r.plan_digest = "00ff";
  r.reproducible = "full";
  r.plan_tensors = {{"embed", "token_embedding", "bfloat16", "vocabulary", {32'002, 96}},
                    {"norm", "final_norm", "bfloat16", "replicated", {96}}};
  r.plan_slices = {{0, 0, 0, 0, 10'668, 2'048'256}, {0, 1, 0, 10'668, 10'667, 2'048'064}, {1, 0, -1, 0, 96, 192}};
  r.memory_classes = {"weights", "kv_cache", "workspace"};
  r.memory_planned = {{100, 200, 300}, {101, 201, 301}, {102, 202, 302}};
  add_sample_prompts(r);
  r.prompts[0].content = 0xFFFFFFFFFFFFFFF1ULL;
  add_sample_answers(r);
  r.weight_classes = {"token_embedding", "final_norm"};
  for (std::int32_t rank = 0; rank < 3; ++rank) r.ranks.push_back(sample_rank(rank));
  for (std::int32_t i = 0; i < 10'000; ++i) r.steps.push_back({0.5 * i, i % 7, i, i % 11, i % 3, i % 2, i % 5});
  r.events = {{0.5, 0, "info", "loaded"}, {1.5, 2, "warning", "slow \u2192 disk"}};
  r.attempts = {{"2026-01-02T03:00:00Z", "2026-01-02T03:01:00Z", "stopped", 1},
                {"2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z", "finished", 2}};
  return r;
}

inline std::string to_text(const RankRow& k) {
  std::string text =
      fmt::format("rank {} {} {} {} {} {} {} {} {} {}\n", k.rank, k.host, k.local_rank, k.replica, k.tp_rank,
                  k.device_kind, k.device_name, k.device_uuid, k.device_pci, k.numa_node, k.cpu_list);
  const auto& w = k.weights;
  text += fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", w.bytes_planned, w.bytes_touched, w.bytes_read,
                      w.bytes_owned, w.n_tensors, w.load_seconds, w.checksum, w.planned_by_class, w.touched_by_class,
                      w.read_by_class, w.owned_by_class);
  for (const auto& m : k.memory)
    text += fmt::format("{} {} {} {} {} {} {}\n", m.device_used, m.device_free, m.anonymous, m.file_backed, m.shared,
                        m.rss, m.rss_peak);
  const auto& t = k.time;
  return text + fmt::format("{} {} {} {} {} {} {}\n", t.compute, t.communication, t.sampling, t.wait, t.io,
                            t.collectives, t.collective_bytes);
}

/// Every field as text (floats exactly), for comparing; NaN equals NaN.
inline std::string to_text(const RunResult& r) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", name_of(r.state), r.run_id, r.created, r.finished,
                  r.tpinfer_version, r.kernel_set, r.git_commit, r.hostname, r.command, r.mpi_library, r.hdf5_version,
                  r.cuda_driver, r.nccl_version, r.slurm_job_id, r.numeric_version);
  text += fmt::format("{} {}\n{} {} {} {} {} {} {} {} {} {} {} {}\n", r.job_source, r.job_resolved, r.model_path,
                      r.architecture, r.family, r.dtype_stored, r.dtype_compute, r.config_json, r.parameters,
                      r.vocab_size, r.layers, r.heads, r.kv_heads, r.head_dim);
  text += fmt::format("{} {} {} {} {} {} {}\n", r.world_size, r.tensor_parallel_size, r.data_parallel_size,
                      r.plan_digest, r.reproducible, r.memory_classes, r.memory_planned);
  for (const auto& t : r.plan_tensors)
    text += fmt::format("{} {} {} {} {}\n", t.name, t.role, t.dtype, t.split, t.shape);
  for (const auto& s : r.plan_slices)
    text += fmt::format("{} {} {} {} {} {}\n", s.tensor, s.rank, s.axis, s.start, s.count, s.bytes);
  for (const auto& p : r.prompts)
    text += fmt::format("{} {} {} {} {} {} {} {} {} {}\n", p.id, p.text, p.token_ids, name_of(p.status), p.error,
                        p.meta, p.prompt_logprobs, p.prompt_top_k, p.prompt_top_ids, p.prompt_top_logprobs);
  for (const auto& a : r.answers)
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n", a.prompt_index, a.sample_index, a.text,
                    a.text_lossy, a.token_ids, a.logprobs, a.top_k, a.top_ids, a.top_logprobs, name_of(a.finish_reason),
                    a.cumulative_logprob, a.t_queued, a.t_first_token, a.t_finished, a.attempt);
  text += fmt::format("{}\n", r.weight_classes);
  for (const auto& k : r.ranks) text += to_text(k);
  for (const auto& s : r.steps)
    text += fmt::format("{} {} {} {} {} {} {}\n", s.t, s.sequences, s.tokens, s.kv_blocks_used, s.waiting,
                        s.preemptions, s.shared_tokens);
  for (const auto& e : r.events) text += fmt::format("{} {} {} {}\n", e.time, e.rank, e.level, e.message);
  for (const auto& a : r.attempts) text += fmt::format("{} {} {} {}\n", a.start, a.end, a.reason, a.prompts_done);
  return text;
}

}  // namespace tpinfer::test
