#include <algorithm>
#include <string>

#include "job/reader.hpp"

namespace tpinfer {
namespace {

struct ForeignName {
  std::string_view name;
  std::string_view hint;
};

constexpr std::string_view kMaxModelLen = "the longest prompt with its answer, in tokens, is engine.max_model_len";
constexpr std::string_view kKvCache = "the room for keys and values is memory.kv_cache, a size or a number of tokens";
constexpr std::string_view kTensorParallel = "the ranks that share one model are parallel.tensor_parallel_size";
constexpr std::string_view kDataParallel = "the number of copies of the model is parallel.data_parallel_size";
constexpr std::string_view kRanks = "the number of ranks is what the launcher starts (mpirun -np N)";
constexpr std::string_view kGpuMemory = "the share of a GPU's memory to use is memory.gpu_memory_utilization";
constexpr std::string_view kSequences = "the most sequences in one step are engine.max_num_seqs";
constexpr std::string_view kBatchTokens = "the most tokens in one step are engine.max_num_batched_tokens";
constexpr std::string_view kBlock = "the tokens in one block of the KV cache are engine.kv_block_size";
constexpr std::string_view kPrefix = "sharing of equal prompt beginnings is engine.prefix_sharing";
constexpr std::string_view kDtype = "the type to compute in is model.dtype";
constexpr std::string_view kNewTokens = "the most tokens of an answer are sampling.max_new_tokens";
constexpr std::string_view kStop = "strings that end an answer are sampling.stop";
constexpr std::string_view kStopIds =
    "token ids that end an answer, beside the model's own, are sampling.stop_token_ids";
constexpr std::string_view kBeams = "beam search is not offered (remove the key)";
constexpr std::string_view kPipeline = "layers are not divided over ranks (use parallel.tensor_parallel_size)";
constexpr std::string_view kQuantized =
    "weights are not quantized here (remove the key; model.dtype: bfloat16 halves float32)";
constexpr std::string_view kOutput = "the result file is output.file";
constexpr std::string_view kPrompts = "the prompt file is prompts.file";
constexpr std::string_view kModel = "the model folder is model.path";

constexpr ForeignName kForeignNames[] = {
    {"cache_max_entry_count", kKvCache},
    {"num_kv_blocks", kKvCache},
    {"num_gpu_blocks_override", kKvCache},
    {"kv_cache_memory_bytes", kKvCache},
    {"kv_cache_free_gpu_memory_fraction", kKvCache},
    {"max_total_tokens", kKvCache},
    {"context_length", kMaxModelLen},
    {"max_model_length", kMaxModelLen},
    {"max_context_len", kMaxModelLen},
    {"max_seq_len", kMaxModelLen},
    {"max_seq_length", kMaxModelLen},
    {"max_sequence_length", kMaxModelLen},
    {"n_ctx", kMaxModelLen},
    {"ctx_size", kMaxModelLen},
    {"session_len", kMaxModelLen},
    {"tensor_parallel", kTensorParallel},
    {"tensor_model_parallel_size", kTensorParallel},
    {"tp", kTensorParallel},
    {"tp_size", kTensorParallel},
    {"tp_degree", kTensorParallel},
    {"mp_size", kTensorParallel},
    {"data_parallel", kDataParallel},
    {"dp", kDataParallel},
    {"dp_size", kDataParallel},
    {"pipeline_parallel_size", kPipeline},
    {"pp", kPipeline},
    {"pp_size", kPipeline},
    {"world_size", kRanks},
    {"num_ranks", kRanks},
    {"num_gpus", kRanks},
    {"gpu_memory", kGpuMemory},
    {"gpu_memory_fraction", kGpuMemory},
    {"mem_fraction_static", kGpuMemory},
    {"batch_size", kSequences},
    {"max_batch_size", kSequences},
    {"max_running_requests", kSequences},
    {"max_num_tokens", kBatchTokens},
    {"max_prefill_tokens", kBatchTokens},
    {"chunked_prefill_size", kBatchTokens},
    {"max_prefill_token_num", kBatchTokens},
    {"block_size", kBlock},
    {"page_size", kBlock},
    {"tokens_per_block", kBlock},
    {"cache_block_seq_len", kBlock},
    {"enable_prefix_caching", kPrefix},
    {"enable_block_reuse", kPrefix},
    {"torch_dtype", kDtype},
    {"data_type", kDtype},
    {"precision", kDtype},
    {"max_gen_len", kNewTokens},
    {"max_completion_tokens", kNewTokens},
    {"max_output_len", kNewTokens},
    {"request_output_len", kNewTokens},
    {"n_predict", kNewTokens},
    {"stop_words", kStop},
    {"stop_strings", kStop},
    {"stop_sequences", kStop},
    {"eos_token_id", kStopIds},
    {"stop_ids", kStopIds},
    {"num_beams", kBeams},
    {"beam_width", kBeams},
    {"best_of", kBeams},
    {"use_beam_search", kBeams},
    {"temp", "how freely tokens are drawn is sampling.temperature"},
    {"random_seed", "the seed of the draws is sampling.seed"},
    {"greedy", "the best token each time is sampling.do_sample: false"},
    {"repeat_penalty", "the penalty for repeated tokens is sampling.repetition_penalty"},
    {"quantization", kQuantized},
    {"load_in_8bit", kQuantized},
    {"load_in_4bit", kQuantized},
    {"trust_remote_code", "no code of a model folder is ever run (remove the key)"},
    {"num_threads", "the threads of one rank are parallel.threads"},
    {"deterministic", "reproducible answers are engine.reproducible"},
    {"swap_space", "a stopped sequence is computed anew, nothing is swapped out (remove the key)"},
    {"output_file", kOutput},
    {"output_path", kOutput},
    {"resume", "going on where a job stopped is output.if_exists: resume"},
    {"overwrite", "writing a result file anew is output.if_exists: overwrite"},
    {"prompt_file", kPrompts},
    {"input_file", kPrompts},
    {"prompts_file", kPrompts},
    {"tokenizer_path", "the tokenizer's folder, where it is not the model's, is model.tokenizer"},
    {"model_dir", kModel},
    {"checkpoint", kModel},
};

}  // namespace

std::string_view foreign_name_hint(std::string_view key) {
  const auto* at = std::find_if(std::begin(kForeignNames), std::end(kForeignNames),
                                [&](const ForeignName& known) { return known.name == key; });
  return at == std::end(kForeignNames) ? std::string_view() : at->hint;
}

}  // namespace tpinfer
