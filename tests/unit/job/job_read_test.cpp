// What good job files mean.
#include <cstdlib>

#include "job_support.hpp"

namespace tpinfer {
namespace {

TEST(JobRead, SmallestJobHasTheDefaultsOfTheDesign) {
  const Job job = parse(kSmallest);
  EXPECT_EQ(job.model.path, "/base/m");
  EXPECT_EQ(job.model.tokenizer_path(), "/base/m");
  EXPECT_EQ(job.prompts.files, std::vector<std::string>{"/base/p.jsonl"});
  EXPECT_EQ(job.output.file, "/base/a.h5");
  Job expected;
  expected.model.path = job.model.path;
  expected.prompts.files = job.prompts.files;
  expected.output.file = job.output.file;
  EXPECT_TRUE(job == expected);
  EXPECT_EQ(job.source, kSmallest);
  EXPECT_EQ(job.source_name, "job.yaml");

  EXPECT_FALSE(job.model.dtype);
  EXPECT_EQ(job.prompts.id_field, "id");
  EXPECT_EQ(job.prompts.text_field, "prompt");
  EXPECT_EQ(job.engine.max_num_seqs, 256);
  EXPECT_EQ(job.engine.max_num_batched_tokens, 2048);
  EXPECT_EQ(job.engine.kv_block_size, 16);
  EXPECT_EQ(job.memory.gpu_memory_utilization, 0.9);
  EXPECT_EQ(job.output.if_exists, IfExists::resume);
  EXPECT_EQ(job.output.flush_every.prompts, 64);
  EXPECT_EQ(job.run.stop_margin, 120);
  EXPECT_EQ(job.run.collective_timeout, 300);
  EXPECT_TRUE(job.run.time_limit.automatic);
  const SamplingParams params = resolve_sampling({}, job.sampling, {});
  EXPECT_EQ(params, SamplingParams{});
  EXPECT_EQ(params.max_new_tokens, 256);
}

const char* const kFull = R"(# a job with every key that may differ from its default
version: 1
include: []
name: "my job"
model:
  path: /models/X/
  tokenizer: ../tok
  dtype: bf16
  load_format: safetensors
  generation_config: none
prompts:
  file: [in/prompts.txt]
  format: text
  id_field: key
  text_field: question
  add_special_tokens: false
  select: {offset: 2, limit: 7}
  on_too_long: fail
sampling:
  max_tokens: 10
  max_length: 100
  min_new_tokens: 1
  do_sample: true
  temperature: .5
  top_k: 40
  top_p: 0.9
  seed: 9223372036854775807
  logprobs: 0
  prompt_logprobs: 20
  skip_special_tokens: false
  allow_unknown_ids: true
  ignore_eos: true
  stop_token_ids: [5, 6]
parallel: {tensor_parallel_size: 4, device: cpu, threads: 2, communication: mpi}
engine:
  max_model_len: 4096
  max_num_seqs: 3
  max_num_batched_tokens: 100
  kv_block_size: 64
  reproducible: batch
memory: {cpu_memory_limit: 8GiB, kv_cache: 32768}
output: {file: out/a.h5, if_exists: overwrite}
run: {collective_timeout: 1m30s, log_level: debug}
)";

TEST(JobRead, EveryKeyThatExists) {
  const Job job = parse(kFull);
  EXPECT_EQ(job.name, "my job");
  EXPECT_EQ(job.model.path, "/models/X");
  EXPECT_EQ(job.model.tokenizer_path(), "/tok");
  EXPECT_EQ(job.model.dtype, DType::bfloat16);
  EXPECT_EQ(job.model.generation_config, GenerationConfigUse::none);
  EXPECT_EQ(job.prompts.files.at(0), "/base/in/prompts.txt");
  EXPECT_EQ(job.prompts.format, PromptFormat::text);
  EXPECT_EQ(job.prompts.id_field, "key");
  EXPECT_EQ(job.prompts.text_field, "question");
  EXPECT_FALSE(job.prompts.add_special_tokens);
  EXPECT_EQ(job.prompts.select.offset, 2);
  EXPECT_EQ(job.prompts.select.limit, 7);
  EXPECT_EQ(job.parallel.tensor_parallel_size, 4);
  EXPECT_EQ(job.parallel.device, Device::cpu);
  EXPECT_EQ(job.parallel.threads, 2);
  EXPECT_EQ(job.parallel.communication, Communication::mpi);
  EXPECT_EQ(job.engine.max_model_len, 4096);
  EXPECT_EQ(job.engine.kv_block_size, 64);
  EXPECT_EQ(job.engine.reproducible, Reproducible::batch);
  EXPECT_EQ(job.memory.cpu_memory_limit, std::uint64_t{8} << 30);
  EXPECT_EQ(job.memory.kv_cache.tokens, 32768U);
  EXPECT_EQ(job.output.if_exists, IfExists::overwrite);
  EXPECT_EQ(job.run.collective_timeout, 90);
  EXPECT_EQ(job.run.log_level, LogLevel::debug);
  const SamplingParams p = resolve_sampling({}, job.sampling, {});
  EXPECT_EQ(p.max_new_tokens, 10);
  EXPECT_EQ(p.max_length, 100);
  EXPECT_TRUE(p.do_sample);
  EXPECT_EQ(p.temperature, 0.5);
  EXPECT_EQ(p.seed, 9223372036854775807);
  EXPECT_EQ(p.logprobs, 0);
  EXPECT_EQ(p.prompt_logprobs, 20);
  EXPECT_EQ(p.stop_token_ids, (std::vector<std::int64_t>{5, 6}));
  EXPECT_TRUE(p.ignore_eos && p.allow_unknown_ids && !p.skip_special_tokens);
}

TEST(JobRead, OtherNamesOfTheModelPath) {
  const std::string rest = "prompts: {file: p}\noutput: {file: a.h5}\n";
  for (const char* model : {"model: M", "model_path: M", "model_name_or_path: M", "model: {model_path: M}",
                            "model: {model_name_or_path: M}", "model:\nmodel_path: M"})
    EXPECT_EQ(parse(model + ("\n" + rest)).model.path, "/base/M") << model;
  EXPECT_EQ(parse("model: {dtype: fp32}\nmodel_path: M\n" + rest).model.dtype, DType::float32);
  EXPECT_EQ(parse(kSmallest + "sampling: {max_tokens: 3}").sampling.max_new_tokens, 3);
  EXPECT_EQ(parse(kSmallest + "sampling: {num_return_sequences: 1}").sampling.n, 1);
}

TEST(JobRead, WordsThatOtherReadersTakeForBooleansAreText) {
  EXPECT_EQ(parse(kSmallest + "name: yes").name, "yes");
  EXPECT_EQ(parse(kSmallest + "name: on").name, "on");
  EXPECT_EQ(parse(kSmallest + "name: 010").name, "010");
  EXPECT_EQ(parse(kSmallest + "name: \"true\"").name, "true");
  EXPECT_EQ(parse(kSmallest + "name: ~").name, std::nullopt);
  EXPECT_EQ(parse(kSmallest + "name: !!str null").name, "null");
}

TEST(JobRead, EmptySectionsAreTheirDefaults) {
  EXPECT_TRUE(parse(kSmallest + "sampling:\nengine:\n  # all left out\n") == parse(kSmallest));
}

TEST(JobRead, ByteOrderMarkAndCarriageReturns) {
  std::string dos = "\xef\xbb\xbf";
  for (const char c : kSmallest) dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(parse(dos) == parse(kSmallest));
  EXPECT_EQ(parse(dos).source, dos);
  EXPECT_EQ(complaints(dos + "nmae: x\r\n").at(0), "job.yaml:4:1: error: nmae: unknown key (did you mean name?)");
}

TEST(JobRead, JsonFile) {
  const std::string text =
      "{\n\t\"model\": {\"path\":\"m\"},\"prompts\":{\"file\":\"p\\/q.jsonl\"},\r\n"
      "\t\"name\": \"smile \\ud83d\\ude00 \\\\ud83d \\u00e9\", \"output\": {\"file\": \"a.h5\"},\n"
      "\t\"memory\": {\"cpu_memory_limit\": \"1.5GiB\"}, \"sampling\": {\"temperature\": 1e-1, "
      "\"do_sample\": true, \"max_length\": null}\n}\n";
  const Job job = parse_job_text(text, "job.json", "/base");
  EXPECT_EQ(job.name, "smile \xf0\x9f\x98\x80 \\ud83d \xc3\xa9");
  EXPECT_EQ(job.prompts.files.at(0), "/base/p/q.jsonl");
  EXPECT_EQ(job.memory.cpu_memory_limit, std::uint64_t{3} << 29);
  EXPECT_EQ(job.sampling.temperature, 0.1);
  EXPECT_EQ(job.sampling.max_length, std::optional<OptionalInt>(OptionalInt{}));
  EXPECT_EQ(complaints("{\"model\": \"m\", \"prompts\": {\"file\": \"p\"},\n \"output\": {\"file\": \"a\"},\n"
                       " \"engine\": {\"max_num_seqs\": \"3\"}}",
                       {}, "job.json")
                .at(0),
            "job.json:3:29: error: engine.max_num_seqs: must be a whole number from 1 to 65536, it is \"3\"");
}

TEST(JobRead, KvCacheIsTokensOrBytes) {
  const auto kv = [](const std::string& value) {
    return parse(kSmallest + "memory: {kv_cache: " + value + "}").memory.kv_cache;
  };
  EXPECT_EQ(kv("auto"), KvCacheLimit{});
  EXPECT_EQ(kv("4096").tokens, 4096U);
  EXPECT_EQ(kv("4096 tokens").tokens, 4096U);
  EXPECT_EQ(kv("4GiB").bytes, std::uint64_t{4} << 30);
  EXPECT_EQ(kv("500 MB").bytes, 500'000'000U);
}

TEST(JobRead, PathsTakeVariables) {
  ::setenv("TPINFER_TEST_DIR", "/data/x", 1);
  ::setenv("TPINFER_TEST_EMPTY", "", 1);
  ::setenv("TPINFER_TEST_CURLY", "/a/${HOME}", 1);
  ::unsetenv("TPINFER_TEST_UNSET");
  const auto path = [](const std::string& value) {
    return parse("model: {path: '" + value + "'}\nprompts: {file: p}\noutput: {file: o}\n").model.path;
  };
  EXPECT_EQ(path("${TPINFER_TEST_DIR}/m"), "/data/x/m");
  EXPECT_EQ(path("a${TPINFER_TEST_UNSET:-b/c}d"), "/base/ab/cd");
  EXPECT_EQ(path("${TPINFER_TEST_EMPTY:-/fallback}"), "/fallback");
  EXPECT_EQ(path("${TPINFER_TEST_UNSET:-}x"), "/base/x");
  EXPECT_EQ(path("$HOME/$${x}"), "/base/$HOME/${x}");
  EXPECT_EQ(path("${TPINFER_TEST_CURLY}"), "/a/${HOME}");
  EXPECT_EQ(parse("model: m\nprompts: {file: '${TPINFER_TEST_DIR}/p'}\noutput: {file: '${TPINFER_TEST_DIR}.h5'}\n")
                .output.file,
            "/data/x.h5");
  // only in paths
  EXPECT_EQ(parse(kSmallest + "name: ${TPINFER_TEST_DIR}").name, "${TPINFER_TEST_DIR}");
  const auto resolved = parse("model: {path: '$${x}$$${y}'}\nprompts: {file: p}\noutput: {file: o}\n");
  EXPECT_EQ(resolved.model.path, "/base/${x}$${y}");
  EXPECT_TRUE(parse(resolved_yaml(resolved)) == resolved);
}

TEST(JobRead, DotDotAfterASymbolicLinkIsKept) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "real/inner");
  std::filesystem::create_directory_symlink(folder.path() / "real/inner", folder.path() / "link");
  const auto file = folder.write("job.yaml", "model: link/../m\nprompts: {file: ./real/../p}\noutput: {file: o}\n");
  const Job job = load_job(file);
  EXPECT_EQ(job.model.path, (folder.path() / "link/../m").string());
  EXPECT_EQ(job.prompts.files.at(0), (folder.path() / "p").string());
}

}  // namespace
}  // namespace tpinfer
