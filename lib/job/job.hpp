#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "job/sampling.hpp"

namespace tpinfer {

enum class LoadStrategy : std::uint8_t { automatic, mmap, read };
enum class LoadFormat : std::uint8_t { safetensors, dummy };
enum class VerifyWeights : std::uint8_t { header, finite, checksum };
enum class GenerationConfigUse : std::uint8_t { automatic, none };
enum class PromptFormat : std::uint8_t { automatic, text, jsonl, openai, csv, hdf5 };
enum class TooLong : std::uint8_t { fail, skip, truncate_left, truncate_right };
enum class Device : std::uint8_t { automatic, cpu, cuda };
enum class Communication : std::uint8_t { automatic, shm, mpi, nccl };
enum class Reproducible : std::uint8_t { automatic, off, batch, full };
enum class NoFit : std::uint8_t { error, shrink };
enum class IfExists : std::uint8_t { resume, error, overwrite };

// Paths below are absolute. An empty optional is the job file's null or auto, as said beside it.

struct ModelJob {
  std::string path;
  std::optional<std::string> tokenizer = {};  // null: path
  std::optional<DType> dtype = {};            // auto: as stored; otherwise float32, float16 or bfloat16
  LoadStrategy load_strategy = LoadStrategy::automatic;
  LoadFormat load_format = LoadFormat::safetensors;
  VerifyWeights verify_weights = VerifyWeights::header;
  GenerationConfigUse generation_config = GenerationConfigUse::automatic;
  std::optional<std::string> architecture_plan = {};  // null
  bool operator==(const ModelJob&) const = default;

  const std::string& tokenizer_path() const { return tokenizer ? *tokenizer : path; }
};

struct SelectJob {
  std::int64_t offset = 0;
  std::optional<std::int64_t> limit;  // null: all
  std::optional<std::string> shard;   // null, "3/16" or "slurm_array"
  bool operator==(const SelectJob&) const = default;
};

struct PromptsJob {
  std::vector<std::string> files;  // of the key `file`; paths, globs, or "-"
  PromptFormat format = PromptFormat::automatic;
  std::string id_field = "id";
  std::string text_field = "prompt";
  std::string chat_template = "auto";  // auto, none or a path
  std::optional<std::string> system;   // null
  bool add_special_tokens = true;
  SelectJob select;
  TooLong on_too_long = TooLong::fail;
  bool operator==(const PromptsJob&) const = default;
};

struct ParallelJob {
  std::optional<std::int64_t> tensor_parallel_size;  // auto: all ranks / data_parallel_size
  std::int64_t data_parallel_size = 1;
  Device device = Device::automatic;
  bool share_gpus = false;              // several ranks may compute on one GPU
  std::optional<std::int64_t> threads;  // per rank; auto
  Communication communication = Communication::automatic;
  bool operator==(const ParallelJob&) const = default;
};

struct EngineJob {
  std::optional<std::int64_t> max_model_len;  // tokens; auto: the model's
  std::int64_t max_num_seqs = 256;
  std::int64_t max_num_batched_tokens = 2048;
  std::int64_t kv_block_size = 16;  // tokens
  bool prefix_sharing = true;
  Reproducible reproducible = Reproducible::automatic;
  bool operator==(const EngineJob&) const = default;
};

/// Per rank: bytes ("4GiB"), tokens (32768, "32768 tokens"), or neither (auto).
struct KvCacheLimit {
  std::optional<std::uint64_t> bytes;
  std::optional<std::uint64_t> tokens;
  bool operator==(const KvCacheLimit&) const = default;
};

struct MemoryJob {
  double gpu_memory_utilization = 0.90;
  std::optional<std::uint64_t> cpu_memory_limit;  // bytes per rank; null: a fair share
  KvCacheLimit kv_cache;
  NoFit on_no_fit = NoFit::error;
  bool operator==(const MemoryJob&) const = default;
};

struct FlushEvery {
  std::int64_t prompts = 64;
  double seconds = 10;
  bool operator==(const FlushEvery&) const = default;
};

struct OutputJob {
  std::string file;
  IfExists if_exists = IfExists::resume;
  FlushEvery flush_every;
  std::optional<std::string> jsonl;  // null
  bool operator==(const OutputJob&) const = default;
};

/// auto (automatic), none (null), or seconds.
struct TimeLimit {
  bool automatic = true;
  std::optional<double> seconds;
  bool operator==(const TimeLimit&) const = default;
};

struct RunJob {
  TimeLimit time_limit;
  double stop_margin = 120;         // s
  double collective_timeout = 300;  // s
  LogLevel log_level = LogLevel::info;
  bool operator==(const RunJob&) const = default;
};

/// The validated content of a job file, includes and --set merged. `sampling` holds what the job itself gave, so that
/// generation_config.json may fill the rest (resolve_sampling).
struct Job {
  std::optional<std::string> name;  // null
  ModelJob model;
  PromptsJob prompts;
  SamplingRequest sampling;
  ParallelJob parallel;
  EngineJob engine;
  MemoryJob memory;
  OutputJob output;
  RunJob run;

  std::string source;       // the job file's text as it was read, without its includes
  std::string source_name;  // its path as the user gave it

  /// Everything but the source.
  bool operator==(const Job& other) const;
};

/// What the command line adds to the job file.
struct JobOverrides {
  std::vector<std::string> sets;      // "key.path=value", later ones win
  std::optional<std::int64_t> limit;  // prompts.select.limit
};

/// Error(usage) with every complaint about a job: lines such as `job.yaml:12:5: error: ...`, which name their place
/// themselves, or `--set KEY: ...`.
class JobError : public Error {
 public:
  explicit JobError(std::vector<std::string> lines, std::shared_ptr<const Job> rest = nullptr);
  const std::vector<std::string>& lines() const noexcept { return lines_; }
  /// The job without its faulty keys, to look for what else is wrong; null when there is none, or when it does not name
  /// model, prompts and output.
  const Job* rest() const noexcept { return rest_.get(); }

 private:
  std::vector<std::string> lines_;
  std::shared_ptr<const Job> rest_;  ///< shared: exceptions are copied
};

/// Reads job.yaml or job.json with its includes; JobError for everything that is wrong with it. Relative paths are
/// taken from the job file's folder, in included files and --set too; only `include` is relative to the file that holds
/// it.
Job load_job(const std::filesystem::path& path, const JobOverrides& overrides = {});

/// The same from a text. `name` begins the complaints; `base_folder` is where relative paths begin.
Job parse_job_text(const std::string& text, const std::string& name, const std::filesystem::path& base_folder,
                   const JobOverrides& overrides = {});

/// All keys with their values, as YAML that parse_job_text reads back to an equal Job (this text is what other ranks
/// get). A sampling key that the job did not give shows generation_config's value or the default, and is missing from
/// the list `sampling_given`, by which the reader tells them apart.
std::string resolved_yaml(const Job& job, const SamplingRequest& generation_config = {});
/// The same as JSON.
std::string resolved_json(const Job& job, const SamplingRequest& generation_config = {});

}  // namespace tpinfer
