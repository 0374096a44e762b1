#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpinfer {

enum class RunState { complete, partial, failed };
enum class PromptStatus : std::uint8_t { done = 0, failed = 1, skipped = 2, pending = 3 };
enum class FinishReason : std::uint8_t { stop = 0, stop_string = 1, length = 2, context = 3, error = 4 };

/// One prompt as the model saw it.
struct PromptRow {
  std::string id;
  std::string text;  ///< empty when the record gave token ids
  std::vector<std::int32_t> token_ids;
  PromptStatus status = PromptStatus::pending;
  std::string error;          ///< one sentence when failed or skipped
  std::string meta;           ///< JSON of the record's "meta", or empty
  std::uint64_t content = 0;  ///< hash of token ids and parameters; 0: unknown, or it could not run
  std::vector<float>
      prompt_logprobs;  ///< [token_ids] natural log, raw distribution; NaN for the first; empty when not asked
  std::int32_t prompt_top_k = 0;             ///< entries per token in prompt_top_*
  std::vector<std::int32_t> prompt_top_ids;  ///< [token_ids, prompt_top_k], best first; -1 for the first token
  std::vector<float> prompt_top_logprobs;    ///< [token_ids, prompt_top_k]
};

/// What answers depend on besides the prompts: only runs that are equal in it may add to each other's answers.
struct RunIdentity {
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;  ///< of sampled blocks, of the whole file when it is small
    bool operator==(const File&) const = default;
  };
  std::vector<File> files;  ///< of the model
  std::string dtype;        ///< that is computed in
  std::int32_t numeric_version = 0;
  std::string kernel_set;
  bool operator==(const RunIdentity&) const = default;
};

/// One answer: sample `sample_index` of a prompt.
struct AnswerRow {
  std::int64_t prompt_index = 0;
  std::int32_t sample_index = 0;
  std::string text;              ///< valid UTF-8; U+FFFD where bytes were none
  std::int64_t text_bytes = -1;  ///< of the decoded ids that belong to the text, where a stop string cuts it; -1: all
  bool text_lossy = false;
  std::vector<std::int32_t> token_ids;
  std::vector<float> logprobs;  ///< [token_ids] of the chosen token, raw distribution, natural log
  std::int32_t top_k = 0;
  std::vector<std::int32_t> top_ids;  ///< [token_ids, top_k], best first
  std::vector<float> top_logprobs;    ///< [token_ids, top_k]
  FinishReason finish_reason = FinishReason::length;
  double cumulative_logprob = 0;
  double t_queued = 0;  ///< seconds since the attempt began
  double t_first_token = 0;
  double t_finished = 0;
  std::int32_t attempt = 0;
};

/// One rank: who it is, what it planned, read and owns, memory at each phase, where its time went. Gathered to rank 0
/// as bytes.
struct RankRow {
  std::int32_t rank = 0;
  std::string host;
  std::int32_t local_rank = 0;
  std::int32_t replica = 0;
  std::int32_t tp_rank = 0;
  std::string device_kind;
  std::string device_name;
  std::string device_uuid;
  std::string device_pci;  ///< "0000:3b:00.0"; empty on the CPU
  std::int32_t numa_node = -1;
  std::string cpu_list;  ///< "0-1": cores that the rank may use

  struct Weights {
    std::uint64_t bytes_planned = 0;  ///< as owned, in the compute type, without padding
    std::uint64_t bytes_touched = 0;  ///< page-rounded union of the mapped runs copied from
    std::uint64_t bytes_read = 0;     ///< stored bytes copied out of the mappings
    std::uint64_t bytes_owned = 0;    ///< in the rank's own memory, padding included
    std::uint64_t n_tensors = 0;
    double load_seconds = 0;
    std::uint64_t checksum = 0;
    std::vector<std::uint64_t> planned_by_class, touched_by_class, read_by_class,
        owned_by_class;  ///< in order of RunResult::weight_classes
  } weights;

  /// One entry a phase of kMemoryPhases, bytes.
  struct Memory {
    std::uint64_t device_used = 0, device_free = 0, anonymous = 0, file_backed = 0, shared = 0, rss = 0, rss_peak = 0;
  };
  std::vector<Memory> memory;

  struct Time {  ///< seconds
    double compute = 0, communication = 0, sampling = 0, wait = 0, io = 0;
    std::uint64_t collectives = 0, collective_bytes = 0;
  } time;
};

inline constexpr const char* kMemoryPhases[] = {"start", "after_load", "after_kv", "peak", "end"};

struct PlanTensorRow {
  std::string name, role, dtype, split;
  std::vector<std::int64_t> shape;
};

struct PlanSliceRow {
  std::int64_t tensor = 0;  ///< row of the tensor table
  std::int32_t rank = 0;
  std::int32_t axis = 0;  ///< -1: the whole tensor
  std::int64_t start = 0, count = 0;
  std::uint64_t bytes = 0;  ///< as stored
};

/// One row a scheduler step (thinned). preemptions and shared_tokens count from the start.
struct StepRow {
  double t = 0;
  std::int32_t sequences = 0, tokens = 0, kv_blocks_used = 0, waiting = 0;
  std::int64_t preemptions = 0, shared_tokens = 0;
};

struct EventRow {
  double time = 0;
  std::int32_t rank = 0;
  std::string level, message;
};

struct AttemptRow {
  std::string start, end, reason;  ///< ISO 8601 UTC; reason: finished, failed, stopped ...
  std::int64_t prompts_done = 0;
};

/// Everything that the result file holds (README, "Result file"; format version 1).
struct RunResult {
  RunState state = RunState::complete;
  std::string run_id, created, finished, tpinfer_version, kernel_set, git_commit, hostname, command, mpi_library,
      hdf5_version, cuda_driver, nccl_version, slurm_job_id;
  std::int32_t numeric_version = 0;
  std::string job_source, job_resolved;

  std::string model_path, architecture, family, dtype_stored, dtype_compute, config_json;
  std::vector<RunIdentity::File> model_files;
  std::uint64_t parameters = 0;
  std::int64_t vocab_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;

  std::int32_t world_size = 1, tensor_parallel_size = 1, data_parallel_size = 1;
  std::string plan_digest, reproducible;
  std::vector<PlanTensorRow> plan_tensors;
  std::vector<PlanSliceRow> plan_slices;
  std::vector<std::string> memory_classes;                 ///< weights, kv_cache, workspace
  std::vector<std::vector<std::uint64_t>> memory_planned;  ///< [ranks][memory_classes] bytes

  std::vector<PromptRow> prompts;
  std::vector<AnswerRow> answers;
  std::vector<std::string> weight_classes;  ///< role names
  std::vector<RankRow> ranks;
  std::vector<StepRow> steps;
  std::vector<EventRow> events;
  std::vector<AttemptRow> attempts;

  RunIdentity identity() const { return {model_files, dtype_compute, numeric_version, kernel_set}; }
};

}  // namespace tpinfer
