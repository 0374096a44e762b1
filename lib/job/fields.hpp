#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "job/codec.hpp"
#include "job/job.hpp"

namespace tpinfer {

/// Every key of the job file, once: reader, writers, checks and the lists of known names all walk these two functions.

namespace names {
using Words = std::string_view[];
inline constexpr Words kAutoNone = {"auto", "none"};
inline constexpr Words kStdin = {"-"};
inline constexpr Words kLoadStrategy = {"auto", "mmap", "read"};
inline constexpr Words kLoadFormat = {"safetensors", "dummy"};
inline constexpr Words kVerifyWeights = {"header", "finite", "checksum"};
inline constexpr Words kPromptFormat = {"auto", "text", "jsonl", "openai", "csv", "hdf5"};
inline constexpr Words kTooLong = {"fail", "skip", "truncate_left", "truncate_right"};
inline constexpr Words kDevice = {"auto", "cpu", "cuda"};
inline constexpr Words kCommunication = {"auto", "shm", "mpi", "nccl"};
inline constexpr Words kReproducible = {"auto", "off", "batch", "full"};
inline constexpr Words kNoFit = {"error", "shrink"};
inline constexpr Words kIfExists = {"resume", "error", "overwrite"};
inline constexpr Words kLogLevel = {"debug", "info", "warning", "error"};
inline constexpr std::int64_t kBlockSizes[] = {16, 32, 64, 128, 256};
}  // namespace names

/// `auto`, true or false.
struct DoSampleWord {
  bool read(ReadContext& c, const Node& node, DoSample& out) const {
    std::optional<bool> value;
    if (!or_auto(Flag{}).read(c, node, value)) return false;
    out = !value ? DoSample::automatic : *value ? DoSample::yes : DoSample::no;
    return true;
  }
  Json write(DoSample value) const {
    return value == DoSample::automatic ? Json("auto") : Json(value == DoSample::yes);
  }
};

/// Calls `v(key, request field, resolved field, codec)` for each key of `sampling`; `mode` stands for the resolved
/// do_sample, whose rule needs more than its own key.
template <class Visitor, class Request, class Params, class Mode>
void visit_sampling(Visitor&& v, Request& r, Params& p, Mode& mode) {
  constexpr std::int64_t kMany = std::int64_t{1} << 31;
  v("max_new_tokens", r.max_new_tokens, p.max_new_tokens, Int{0, kMany});
  v("max_length", r.max_length, p.max_length, or_null(Int{1, kMany}));
  v("min_new_tokens", r.min_new_tokens, p.min_new_tokens, Int{0, kMany});
  v("do_sample", r.do_sample, mode, DoSampleWord{});
  v("temperature", r.temperature, p.temperature, Real{.least = 0});
  v("top_k", r.top_k, p.top_k, Int{0, kMany});
  v("top_p", r.top_p, p.top_p, Real{.least = 0, .most = 1, .above = true});
  v("min_p", r.min_p, p.min_p, Real{.least = 0, .most = 1});
  v("repetition_penalty", r.repetition_penalty, p.repetition_penalty, Real{.least = 0, .above = true});
  v("presence_penalty", r.presence_penalty, p.presence_penalty, Real{});
  v("frequency_penalty", r.frequency_penalty, p.frequency_penalty, Real{});
  v("no_repeat_ngram_size", r.no_repeat_ngram_size, p.no_repeat_ngram_size, Int{0, kMany});
  v("bad_words", r.bad_words, p.bad_words, List<Text>{.item = {.may_be_empty = false}});
  v("logit_bias", r.logit_bias, p.logit_bias, LogitBiasMap{});
  v("stop", r.stop, p.stop, List<Text>{.item = {.may_be_empty = false}});
  v("stop_token_ids", r.stop_token_ids, p.stop_token_ids, List<Int>{.item = {0, kMany}});
  v("ignore_eos", r.ignore_eos, p.ignore_eos, Flag{});
  v("include_stop_str_in_output", r.include_stop_str_in_output, p.include_stop_str_in_output, Flag{});
  v("seed", r.seed, p.seed, Int{0});
  v("n", r.n, p.n, Int{1, 65536});
  v("logprobs", r.logprobs, p.logprobs, or_null(Int{0, SamplingParams::kMaxLogprobs}));
  v("prompt_logprobs", r.prompt_logprobs, p.prompt_logprobs, or_null(Int{0, SamplingParams::kMaxLogprobs}));
  v("skip_special_tokens", r.skip_special_tokens, p.skip_special_tokens, Flag{});
  v("allow_unknown_ids", r.allow_unknown_ids, p.allow_unknown_ids, Flag{});
}

template <class Visitor, class Prompts>
void visit_prompts(Visitor& v, Prompts& p) {
  v.section("prompts", [&] {
    v.required("file", p.files, List<PathText>{.item = {names::kStdin}, .one = true});
    v.field("format", p.format, Choice<PromptFormat>{names::kPromptFormat});
    v.field("id_field", p.id_field, Text{false});
    v.field("text_field", p.text_field, Text{false});
    v.field("chat_template", p.chat_template, PathText{names::kAutoNone});
    v.field("system", p.system, or_null(Text{}));
    v.field("add_special_tokens", p.add_special_tokens, Flag{});
    v.section("select", [&] {
      v.field("offset", p.select.offset, Int{0});
      v.field("limit", p.select.limit, or_null(Int{1}));
      v.field("shard", p.select.shard, or_null(ShardText{}));
    });
    v.field("on_too_long", p.on_too_long, Choice<TooLong>{names::kTooLong});
  });
}

/// Calls `v.field` or `v.required(key, value, codec)` for each key, inside `v.section(key, body)`, and
/// `v.sampling(request)`.
template <class Visitor, class JobType>
void visit_job(Visitor& v, JobType& job) {
  constexpr std::int64_t kMany = std::int64_t{1} << 31;
  v.field("name", job.name, or_null(Text{}));
  v.section("model", [&, &m = job.model] {
    v.required("path", m.path, PathText{});
    v.field("tokenizer", m.tokenizer, or_null(PathText{}));
    v.field("dtype", m.dtype, or_auto(WeightType{}));
    v.field("load_strategy", m.load_strategy, Choice<LoadStrategy>{names::kLoadStrategy});
    v.field("load_format", m.load_format, Choice<LoadFormat>{names::kLoadFormat});
    v.field("verify_weights", m.verify_weights, Choice<VerifyWeights>{names::kVerifyWeights});
    v.field("generation_config", m.generation_config, Choice<GenerationConfigUse>{names::kAutoNone});
    v.field("architecture_plan", m.architecture_plan, or_null(PathText{}));
  });
  visit_prompts(v, job.prompts);
  v.section("sampling", [&] { v.sampling(job.sampling); });
  v.section("parallel", [&, &p = job.parallel] {
    v.field("tensor_parallel_size", p.tensor_parallel_size, or_auto(Int{1, 65536}));
    v.field("data_parallel_size", p.data_parallel_size, Int{1, 65536});
    v.field("device", p.device, Choice<Device>{names::kDevice});
    v.field("share_gpus", p.share_gpus, Flag{});
    v.field("threads", p.threads, or_auto(Int{1, 4096}));
    v.field("communication", p.communication, Choice<Communication>{names::kCommunication});
  });
  v.section("engine", [&, &e = job.engine] {
    v.field("max_model_len", e.max_model_len, or_auto(Int{1, kMany}));
    v.field("max_num_seqs", e.max_num_seqs, Int{1, 65536});
    v.field("max_num_batched_tokens", e.max_num_batched_tokens, Int{1, 1048576});
    v.field("kv_block_size", e.kv_block_size, IntOf{names::kBlockSizes});
    v.field("prefix_sharing", e.prefix_sharing, Flag{});
    v.field("reproducible", e.reproducible, Choice<Reproducible>{names::kReproducible});
  });
  v.section("memory", [&, &m = job.memory] {
    v.field("gpu_memory_utilization", m.gpu_memory_utilization, Real{.least = 0, .most = 1, .above = true});
    v.field("cpu_memory_limit", m.cpu_memory_limit, or_null(Size{}));
    v.field("kv_cache", m.kv_cache, KvCache{});
    v.field("on_no_fit", m.on_no_fit, Choice<NoFit>{names::kNoFit});
  });
  v.section("output", [&, &o = job.output] {
    v.required("file", o.file, PathText{});
    v.field("if_exists", o.if_exists, Choice<IfExists>{names::kIfExists});
    v.section("flush_every", [&] {
      v.field("prompts", o.flush_every.prompts, Int{1});
      v.field("seconds", o.flush_every.seconds, Duration{.bare = true});
    });
    v.field("jsonl", o.jsonl, or_null(PathText{}));
  });
  v.section("run", [&, &r = job.run] {
    v.field("time_limit", r.time_limit, TimeLimitText{});
    v.field("stop_margin", r.stop_margin, Duration{});
    v.field("collective_timeout", r.collective_timeout, Duration{1});
    v.field("log_level", r.log_level, Choice<LogLevel>{names::kLogLevel});
  });
}

}  // namespace tpinfer
