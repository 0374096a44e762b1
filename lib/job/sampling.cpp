#include "job/sampling.hpp"

#include <string_view>

#include "core/error.hpp"
#include "job/aliases.hpp"
#include "job/fields.hpp"
#include "job/reader.hpp"

namespace tpinfer {
namespace {

constexpr auto kFill = [](std::string_view, const auto& given, auto& value, const auto&) {
  if (given) value = *given;
};

// Reads the keys of `json` as sampling values; every complaint in one Error(input).
SamplingRequest read_request(const Json& json, const std::string& where, const std::string& prefix) {
  Problems problems;
  const Place place{problems.add_label(where), 0, 0};
  SamplingRequest request;
  const Node root = node_from_json(json, place);
  Reader reader(root, prefix, {}, problems);
  reader.sampling(request);
  reader.finish();
  if (!problems.empty()) throw Error(ExitCode::input, fmt::format("{}", fmt::join(problems.lines(), "\n")));
  return request;
}

}  // namespace

SamplingRequest parse_params(const Json& params, const std::string& where) {
  if (params.is_null()) return {};
  if (!params.is_object())
    fail_input("{}: params: must be an object of sampling keys, it is {}", where, describe(node_from_json(params, {})));
  if (params.size() > 256) fail_input("{}: params: holds {} keys, more than sampling has", where, params.size());
  Json canonical = Json::object();
  for (const auto& [key, value] : params.items()) {
    const std::string name(canonical_sampling_key(key));
    if (canonical.contains(name)) fail_input("{}: params: {} is given twice, also by its other name", where, name);
    canonical[name] = value;
  }
  return read_request(canonical, where, "params");
}

SamplingRequest parse_generation_config(const Json& config, const std::string& where) {
  if (!config.is_object()) fail_input("{}: must be a JSON object", where);
  static constexpr const char* kTaken[] = {"do_sample",          "temperature",         "top_k", "top_p", "min_p",
                                           "repetition_penalty", "no_repeat_ngram_size"};
  Json taken = Json::object();
  for (const char* key : kTaken)
    if (const auto at = config.find(key); at != config.end() && !at->is_null()) taken[key] = *at;
  return read_request(taken, where, "");
}

SamplingParams resolve_sampling(const SamplingRequest& record, const SamplingRequest& job,
                                const SamplingRequest& generation_config, const std::string& where) {
  SamplingParams params;
  DoSample mode = DoSample::automatic;
  visit_sampling(kFill, generation_config, params, mode);
  const DoSample from_model = mode;
  mode = DoSample::automatic;
  visit_sampling(kFill, job, params, mode);
  visit_sampling(kFill, record, params, mode);
  if (mode == DoSample::automatic) mode = record.temperature || job.temperature ? DoSample::yes : from_model;
  params.do_sample = mode == DoSample::yes && params.temperature > 0;

  if (params.max_new_tokens == 0 && !params.prompt_logprobs)
    fail_input("{}: max_new_tokens is 0, which only makes sense with prompt_logprobs (give at least 1)", where);
  if (params.min_new_tokens > params.max_new_tokens)
    fail_input("{}: min_new_tokens {} is more than max_new_tokens {} (change one of them)", where,
               params.min_new_tokens, params.max_new_tokens);
  return params;
}

}  // namespace tpinfer
