// How a record, the job and generation_config.json make the sampling of one prompt.
#include "job/sampling.hpp"

#include "job_support.hpp"

namespace tpinfer {
namespace {

Json json(const std::string& text) { return parse_json(text, "test"); }
SamplingRequest request(const std::string& text) { return parse_params(json(text), "test"); }
SamplingRequest model(const std::string& text) { return parse_generation_config(json(text), "generation_config.json"); }

struct DoSampleCase {
  const char* record;
  const char* job;
  const char* generation_config;
  bool do_sample;
  double temperature;
};

TEST(Sampling, DoSampleAndTemperature) {
  const DoSampleCase cases[] = {
      {"{}", "{}", "{}", false, 1.0},
      {"{}", "{}", R"({"temperature": 0.6})", false, 0.6},
      {"{}", "{}", R"({"do_sample": true, "temperature": 0.6})", true, 0.6},
      {"{}", R"({"do_sample": false})", R"({"do_sample": true, "temperature": 0.6})", false, 0.6},
      {"{}", R"({"do_sample": true})", R"({"do_sample": false, "temperature": 0.6})", true, 0.6},
      {"{}", R"({"temperature": 0.7})", R"({"do_sample": false})", true, 0.7},
      {"{}", R"({"temperature": 0})", R"({"do_sample": true})", false, 0.0},
      {"{}", R"({"temperature": 0, "do_sample": true})", "{}", false, 0.0},
      {"{}", R"({"temperature": 0.7, "do_sample": false})", "{}", false, 0.7},
      {"{}", R"({"do_sample": "auto"})", R"({"do_sample": true})", true, 1.0},
      {R"({"temperature": 0.3})", "{}", "{}", true, 0.3},
      {R"({"temperature": 0.3})", R"({"do_sample": false})", "{}", false, 0.3},
      {R"({"temperature": 0.3, "do_sample": "auto"})", R"({"do_sample": false})", "{}", true, 0.3},
      {R"({"do_sample": false})", R"({"temperature": 0.7})", "{}", false, 0.7},
      {R"({"do_sample": true})", "{}", R"({"temperature": 0.6})", true, 0.6},
      {R"({"temperature": 0})", R"({"temperature": 0.7})", R"({"do_sample": true})", false, 0.0},
  };
  for (const auto& c : cases) {
    const SamplingParams p = resolve_sampling(request(c.record), request(c.job), model(c.generation_config));
    EXPECT_EQ(p.do_sample, c.do_sample) << c.record << c.job << c.generation_config;
    EXPECT_EQ(p.temperature, c.temperature) << c.record << c.job << c.generation_config;
  }
}

TEST(Sampling, RecordThenJobThenModelThenDefault) {
  const SamplingParams p = resolve_sampling(request(R"({"top_k": 1})"), request(R"({"top_k": 2, "top_p": 0.2})"),
                                            model(R"({"top_k": 3, "top_p": 0.3, "temperature": 0.4})"));
  EXPECT_EQ(p.top_k, 1);
  EXPECT_EQ(p.top_p, 0.2);
  EXPECT_EQ(p.temperature, 0.4);
  EXPECT_EQ(p.seed, 0);
}

TEST(Sampling, ModelsLengthsAreIgnored) {
  const auto lengths = model(R"({"max_length": 20, "max_new_tokens": 3, "min_new_tokens": 2, "max_time": 1})");
  EXPECT_EQ(lengths, SamplingRequest{});
  EXPECT_EQ(resolve_sampling({}, request(R"({"max_new_tokens": 10})"), lengths).max_new_tokens, 10);
  EXPECT_EQ(resolve_sampling({}, {}, lengths).max_length, std::nullopt);
  EXPECT_EQ(resolve_sampling({}, {}, lengths).max_new_tokens, 256);
}

TEST(Sampling, BothLengthsStand) {
  const SamplingParams p = resolve_sampling({}, request(R"({"max_new_tokens": 10, "max_length": 30})"), {});
  EXPECT_EQ(p.max_new_tokens, 10);
  EXPECT_EQ(p.max_length, 30);
  // a record may lift the job's limit
  EXPECT_EQ(resolve_sampling(request(R"({"max_length": null})"), request(R"({"max_length": 30})"), {}).max_length,
            std::nullopt);
  EXPECT_EQ(resolve_sampling(request(R"({"logprobs": null})"), request(R"({"logprobs": 3})"), {}).logprobs,
            std::nullopt);
}

TEST(Sampling, GenerationConfig) {
  const auto r = model(R"({"bos_token_id": 1, "eos_token_id": [2, 3], "do_sample": true, "temperature": 0.6,
                           "top_k": null, "top_p": 0.9, "transformers_version": "4.31.0", "_from_model_config": true})");
  SamplingRequest expected;
  expected.do_sample = DoSample::yes;
  expected.temperature = 0.6;
  expected.top_p = 0.9;
  EXPECT_EQ(r, expected);
  try {
    model(R"({"top_p": 2, "temperature": "hot"})");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::input);
    EXPECT_STREQ(e.what(),
                 "generation_config.json: temperature: must be a number of at least 0, it is \"hot\"\n"
                 "generation_config.json: top_p: must be a number above 0 and at most 1, it is 2");
  }
  EXPECT_THROW(model("[]"), Error);
}

TEST(Sampling, AModelsOwnValuesHoldUnlessTheJobGivesOthers) {
  const auto r = model(R"({"repetition_penalty": 1.05})");
  EXPECT_EQ(resolve_sampling({}, {}, r).repetition_penalty, 1.05);
  EXPECT_EQ(resolve_sampling({}, request(R"({"repetition_penalty": 1.0})"), r).repetition_penalty, 1.0);
}

TEST(Sampling, WhatOnlyShowsTogether) {
  EXPECT_THROW(resolve_sampling(request(R"({"max_new_tokens": 0})"), {}, {}), Error);
  EXPECT_EQ(resolve_sampling(request(R"({"max_new_tokens": 0, "prompt_logprobs": 0})"), {}, {}).max_new_tokens, 0);
  EXPECT_THROW(resolve_sampling(request(R"({"max_new_tokens": 5})"), request(R"({"min_new_tokens": 6})"), {}), Error);
}

TEST(Params, SameKeysAndChecksAsTheJob) {
  const auto r =
      request(R"({"max_tokens": 5, "temperature": 0.5, "seed": 7, "stop_token_ids": [1], "ignore_eos": true})");
  EXPECT_EQ(r.max_new_tokens, 5);
  EXPECT_EQ(r.seed, 7);
  EXPECT_EQ(r.ignore_eos, true);
  EXPECT_EQ(request("null"), SamplingRequest{});
  EXPECT_EQ(request(R"({"max_length": null})").max_length, std::optional<OptionalInt>(OptionalInt{}));
  const auto fault = [](const std::string& text) -> std::string {
    try {
      parse_params(parse_json(text, "x"), "p.jsonl:17");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::input);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(fault(R"({"tempreture": 1})"), "p.jsonl:17: params.tempreture: unknown key (did you mean temperature?)");
  EXPECT_EQ(fault(R"({"top_p": 0, "top_k": 1.5})"),
            "p.jsonl:17: params.top_k: must be a whole number from 0 to 2147483648, it is 1.5\n"
            "p.jsonl:17: params.top_p: must be a number above 0 and at most 1, it is 0");
  EXPECT_EQ(fault(R"({"n": 0})"), "p.jsonl:17: params.n: must be a whole number from 1 to 65536, it is 0");
  EXPECT_EQ(fault(R"({"max_tokens": 1, "max_new_tokens": 2})"),
            "p.jsonl:17: params: max_new_tokens is given twice, also by its other name");
  EXPECT_EQ(fault("[1]"), "p.jsonl:17: params: must be an object of sampling keys, it is a list");
  EXPECT_EQ(fault(R"({"file": "x"})"), "p.jsonl:17: params.file: unknown key");
  EXPECT_EQ(fault(R"({"seed": 18446744073709551615})"),
            "p.jsonl:17: params.seed: must be a whole number of at least 0, it is 18446744073709551615");
  EXPECT_EQ(fault(R"({"stop": [[1]]})"), "p.jsonl:17: params.stop[0]: must be text, it is a list");
}

TEST(Resolved, ShowsWhatTheModelAddsAndKeepsWhoGaveIt) {
  const Job job = parse(kSmallest + "sampling: {top_k: 5}");
  const auto config = model(R"({"do_sample": true, "temperature": 0.6, "top_k": 20})");
  const Json shown = Json::parse(resolved_json(job, config));
  EXPECT_EQ(shown["sampling"]["temperature"], 0.6);
  EXPECT_EQ(shown["sampling"]["top_k"], 5);
  EXPECT_EQ(shown["sampling"]["do_sample"], true);
  EXPECT_EQ(shown["sampling"]["max_new_tokens"], 256);
  EXPECT_EQ(shown["sampling_given"], Json::array({"top_k"}));
  EXPECT_TRUE(parse(resolved_yaml(job, config)) == job);
  EXPECT_TRUE(parse(resolved_json(job, config)) == job);
}

}  // namespace
}  // namespace tpinfer
