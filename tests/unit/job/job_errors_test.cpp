// Bad job files: each complaint with its place, key and advice.
#include <ctime>

#include "job_support.hpp"

namespace tpinfer {
namespace {

struct BadCase {
  std::string extra;    // after the smallest job: begins in line 4
  std::string message;  // the whole of the only complaint
};

void check(const std::vector<BadCase>& cases) {
  for (const BadCase& bad : cases) {
    const auto lines = complaints(kSmallest + bad.extra);
    ASSERT_EQ(lines.size(), 1U) << bad.extra << (lines.empty() ? "" : "\n" + lines[0] + "\n" + lines.back());
    EXPECT_EQ(lines[0], "job.yaml:" + bad.message) << bad.extra;
  }
}

TEST(JobErrors, Types) {
  check({
      {"engine: {prefix_sharing: yes}", "4:26: error: engine.prefix_sharing: must be true or false, it is yes"},
      {"engine: {prefix_sharing: True}", "4:26: error: engine.prefix_sharing: must be true or false, it is True"},
      {"engine: {prefix_sharing: \"true\"}",
       "4:26: error: engine.prefix_sharing: must be true or false, it is \"true\""},
      {"engine: {prefix_sharing: 1}", "4:26: error: engine.prefix_sharing: must be true or false, it is 1"},
      {"sampling:\n  ignore_eos: y", "5:15: error: sampling.ignore_eos: must be true or false, it is y"},
      {"sampling:\n  do_sample: on", "5:14: error: sampling.do_sample: must be auto, true or false, it is on"},
      {"sampling: {top_k: 010}",
       "4:19: error: sampling.top_k: 010 begins with a zero, which some readers take for base 8 (write it without)"},
      {"sampling: {temperature: 00.5}",
       "4:25: error: sampling.temperature: 00.5 begins with a zero, which some readers take for base 8 (write it "
       "without)"},
      {"sampling: {top_k: 1.0}", "4:19: error: sampling.top_k: must be a whole number from 0 to 2147483648, it is 1.0"},
      {"sampling: {top_k: 1_000}",
       "4:19: error: sampling.top_k: must be a whole number from 0 to 2147483648, it is 1_000"},
      {"sampling: {top_k: 0x10}",
       "4:19: error: sampling.top_k: must be a whole number from 0 to 2147483648, it is 0x10"},
      {"sampling: {top_k: -1}", "4:19: error: sampling.top_k: must be a whole number from 0 to 2147483648, it is -1"},
      {"sampling: {seed: 99999999999999999999}",
       "4:18: error: sampling.seed: must be a whole number of at least 0, it is 99999999999999999999"},
      {"sampling: {temperature: -0.1}",
       "4:25: error: sampling.temperature: must be a number of at least 0, it is -0.1"},
      {"sampling: {temperature: .nan}",
       "4:25: error: sampling.temperature: must be a number of at least 0, it is .nan"},
      {"sampling: {temperature: .inf}",
       "4:25: error: sampling.temperature: must be a number of at least 0, it is .inf"},
      {"sampling: {temperature: 1e999}",
       "4:25: error: sampling.temperature: must be a number of at least 0, it is 1e999"},
      {"sampling: {temperature: null}",
       "4:12: error: sampling.temperature: must be a number of at least 0, it is null"},
      {"sampling: {top_p: 0}", "4:19: error: sampling.top_p: must be a number above 0 and at most 1, it is 0"},
      {"sampling: {top_p: 1.01}", "4:19: error: sampling.top_p: must be a number above 0 and at most 1, it is 1.01"},
      {"sampling: {min_p: 2}", "4:19: error: sampling.min_p: must be a number from 0 to 1, it is 2"},
      {"sampling: {repetition_penalty: 0}",
       "4:32: error: sampling.repetition_penalty: must be a number above 0, it is 0"},
      {"sampling: {n: 0}", "4:15: error: sampling.n: must be a whole number from 1 to 65536, it is 0"},
      {"sampling: {max_length: 0}",
       "4:24: error: sampling.max_length: must be null or a whole number from 1 to 2147483648, it is 0"},
      {"sampling: {logprobs: 101}",
       "4:22: error: sampling.logprobs: must be null or a whole number from 0 to 100, it is 101"},
      {"sampling: {stop_token_ids: 5}", "4:28: error: sampling.stop_token_ids: must be a list, it is 5"},
      {"sampling: {stop_token_ids: [5, x]}",
       "4:32: error: sampling.stop_token_ids[1]: must be a whole number from 0 to 2147483648, it is x"},
      {"sampling: {logit_bias: {5: x}}", "4:28: error: sampling.logit_bias.5: must be a number, it is x"},
      {"sampling: {logit_bias: {a: 1}}",
       "4:25: error: sampling.logit_bias: must be a whole number of at least 0, it is a"},
      {"name: true", "4:7: error: name: must be null or text (in quotes, where the word itself is meant), it is true"},
      {"name: [a]", "4:7: error: name: must be null or text, it is a list"},
      {"name: {a: b}", "4:7: error: name: must be null or text, it is a mapping"},
      {"parallel: {device: gpu}", "4:20: error: parallel.device: must be auto, cpu or cuda, it is gpu"},
      {"parallel: {threads: 0}",
       "4:21: error: parallel.threads: must be auto or a whole number from 1 to 4096, it is 0"},
      {"engine: {kv_block_size: 17}", "4:25: error: engine.kv_block_size: must be 16, 32, 64, 128 or 256, it is 17"},
      {"memory: {cpu_memory_limit: 8 gigs}",
       "4:28: error: memory.cpu_memory_limit: must be null or a size above zero such as 8GiB or 500MB, it is 8 gigs"},
      {"memory: {kv_cache: -1}",
       "4:20: error: memory.kv_cache: must be auto, a size such as 4GiB, or tokens such as 32768 or \"32768 tokens\", "
       "it is -1"},
      {"run: {collective_timeout: 0.1s}",
       "4:27: error: run.collective_timeout: must be a duration of at least 1s such as 90s or 3h30m, it is 0.1s"},
      {"run: {stop_margin: soon}", "4:20: error: run.stop_margin: must be a duration such as 90s or 3h30m, it is soon"},
      {"version: 2", "4:10: error: version: must be 1, it is 2"},
      {"sampling: 3", "4:11: error: sampling: must be a mapping of keys, it is 3"},
      {"sampling: []", "4:11: error: sampling: must be a mapping of keys, it is a list"},
  });
}

TEST(JobErrors, UnknownKeys) {
  check({
      {"sampling:\n  tempreture: 1", "5:3: error: sampling.tempreture: unknown key (did you mean temperature?)"},
      {"promts: {file: x}", "4:1: error: promts: unknown key (did you mean prompts?)"},
      {"zzzzzzzz: 1", "4:1: error: zzzzzzzz: unknown key"},
      {"temperature: 1", "4:1: error: temperature: unknown key here (it is written sampling.temperature)"},
      {"engine: {temperature: 1}",
       "4:10: error: engine.temperature: unknown key here (it is written sampling.temperature)"},
      {"memory: {cache_max_entry_count: 0.8}",
       "4:10: error: memory.cache_max_entry_count: unknown key: the room for keys and values is memory.kv_cache, a "
       "size or a number of tokens"},
      {"engine: {context_length: 8}",
       "4:10: error: engine.context_length: unknown key: the longest prompt with its answer, in tokens, is "
       "engine.max_model_len"},
      {"engine: {max_model_length: 8}",
       "4:10: error: engine.max_model_length: unknown key: the longest prompt with its answer, in tokens, is "
       "engine.max_model_len"},
      {"tensor_parallel: {tp_size: 8}",
       "4:1: error: tensor_parallel: unknown key: the ranks that share one model are parallel.tensor_parallel_size"},
      {"gpu_memory: 0.5",
       "4:1: error: gpu_memory: unknown key: the share of a GPU's memory to use is memory.gpu_memory_utilization"},
      {"\"a\\nb\": 2", "4:1: error: a\\nb: unknown key"},
  });
}

TEST(JobErrors, ColumnsCountCharacters) {
  const std::string text = "{model: \"\xc3\xa9\xc3\xa9\", nmae: 1, prompts: {file: p}, output: {file: o}}";
  const std::vector<std::string> expected{"job.yaml:1:15: error: nmae: unknown key (did you mean name?)"};
  EXPECT_EQ(complaints(text), expected);
  EXPECT_EQ(complaints("\xef\xbb\xbf" + text), expected);
}

TEST(JobErrors, SamplingGivenNamesSamplingKeys) {
  check({{"sampling_given: [top_k, topk]", "4:17: error: sampling_given: \"topk\" is no key of sampling"}});
}

TEST(JobErrors, KeysThatStandTwice) {
  check({
      {"model:\n  path: x", "4:1: error: the key \"model\" occurs twice in one mapping, first in line 1 (keep one)"},
      {"output.jsonl: x",
       "4:1: error: output.jsonl: unknown key (a dot is for --set alone, write output: {jsonl: ...})"},
      {"output: {jsonl: null}",
       "4:1: error: the key \"output\" occurs twice in one mapping, first in line 3 (keep one)"},
  });
}

TEST(JobErrors, AllInOneGoAndInOrder) {
  const auto lines = complaints(
      "model: {path: m, dtype: int8}\nprompts: {format: xml}\nsampling:\n  top_p: 7\n  topk: 1\n  n: 0\n"
      "engine: {max_num_seqs: yes}\n");
  const std::vector<std::string> expected = {
      "job.yaml:1:1: error: output.file: is missing, the job needs it",
      "job.yaml:1:25: error: model.dtype: must be auto, float32, float16 or bfloat16, it is int8",
      "job.yaml:2:10: error: prompts.file: is missing, the job needs it",
      "job.yaml:2:19: error: prompts.format: must be auto, text, jsonl, openai, csv or hdf5, it is xml",
      "job.yaml:4:10: error: sampling.top_p: must be a number above 0 and at most 1, it is 7",
      "job.yaml:5:3: error: sampling.topk: unknown key (did you mean top_k?)",
      "job.yaml:6:6: error: sampling.n: must be a whole number from 1 to 65536, it is 0",
      "job.yaml:7:24: error: engine.max_num_seqs: must be a whole number from 1 to 65536, it is yes"};
  EXPECT_EQ(lines, expected);
}

TEST(JobErrors, ManyErrorsAreCounted) {
  std::string text = kSmallest;
  for (int i = 0; i < 1000; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const auto lines = complaints(text);
  ASSERT_EQ(lines.size(), 101U);
  EXPECT_EQ(lines.back(), "job.yaml: and 900 more errors");
}

TEST(JobErrors, ShortFormsThatTheJobFileDoesNotHave) {
  EXPECT_EQ(complaints("model: m\nprompts: p.txt\noutput: a.h5\n"),
            (std::vector<std::string>{
                "job.yaml:2:10: error: prompts: must be a mapping of keys, it is p.txt (write prompts: {file: p.txt})",
                "job.yaml:3:9: error: output: must be a mapping of keys, it is a.h5 (write output: {file: a.h5})"}));
  EXPECT_EQ(complaints("model: [m]\nprompts: {file: p}\noutput: {file: a}\n"),
            std::vector<std::string>{"job.yaml:1:8: error: model: must be a mapping of keys, it is a list"});
}

TEST(JobErrors, SamplingKeysTogether) {
  check({{"sampling: {max_new_tokens: 0}",
          "4:28: error: sampling.max_new_tokens: is 0, which only makes sense with sampling.prompt_logprobs (give at "
          "least 1)"},
         {"sampling: {max_new_tokens: 5, min_new_tokens: 6}",
          "4:47: error: sampling.min_new_tokens: is 6, more than sampling.max_new_tokens, which is 5"}});
  EXPECT_EQ(parse(kSmallest + "sampling: {max_new_tokens: 0, prompt_logprobs: 1}").sampling.max_new_tokens, 0);
}

TEST(JobErrors, BothNamesOfOneKey) {
  check(
      {{"sampling: {max_tokens: 5, max_new_tokens: 6}",
        "4:12: error: sampling.max_tokens: is another name of sampling.max_new_tokens, which is given too (keep one)"},
       {"model_path: x",
        "4:1: error: model.model_path: is another name of model.path, which is given too (keep one)"}});
}

TEST(JobErrors, Paths) {
  ::unsetenv("TPINFER_TEST_UNSET");
  const auto one = [](const std::string& value) {
    const auto lines = complaints("model: {path: m}\nprompts: {file: p}\noutput: {file: " + value + "}\n");
    return lines.size() == 1 ? lines[0] : std::to_string(lines.size());
  };
  const std::string at = "job.yaml:3:16: error: output.file: ";
  EXPECT_EQ(
      one("'${TPINFER_TEST_UNSET}/a'"),
      at + "the environment variable TPINFER_TEST_UNSET is not set (set it, or write ${TPINFER_TEST_UNSET:-default})");
  EXPECT_EQ(one("'${HOME'"), at + "\"${\" without its \"}\" (write ${VAR}, or $${ for the characters themselves)");
  EXPECT_EQ(one("'${1X}'"), at + "${1X} is no variable (write ${VAR} or ${VAR:-default})");
  EXPECT_EQ(one("'${TPINFER_TEST_UNSET:-}'"), at + "the path \"${TPINFER_TEST_UNSET:-}\" is empty once expanded");
  EXPECT_EQ(one("~/a.h5"), at + "\"~\" is not expanded in a path (write ${HOME} instead)");
  EXPECT_EQ(one("\"a\\0b\""), at + "the path \"a\\x00b\" holds a control character");
  EXPECT_EQ(one("[a]"), at + "must be a path, it is a list");
  EXPECT_EQ(one("\"\""), at + "must be a path, it is \"\"");
}

TEST(JobErrors, Documents) {
  const auto all = [](const std::string& text) {
    std::string out;
    for (const auto& line : complaints(text)) out += line + "\n";
    return out;
  };
  EXPECT_EQ(all(""),
            "job.yaml:1:1: error: is empty; the smallest job is model: {path: DIR}, prompts: {file: FILE}, output: "
            "{file: FILE}\n");
  EXPECT_EQ(all("# nothing\n"), all(""));
  EXPECT_EQ(all("- a\n- b\n"), "job.yaml:1:1: error: must be a mapping of keys, it is a list\n");
  EXPECT_EQ(all("model"), "job.yaml:1:1: error: must be a mapping of keys, it is model\n");
  EXPECT_EQ(all(kSmallest + "---\nname: x\n"),
            "job.yaml:5:1: error: a second document begins here, one is expected (remove the '---')\n");
  EXPECT_EQ(all("model: m\nname: a\xff\n"),
            "job.yaml:2:8: error: not valid UTF-8: byte 0xff (save the file as UTF-8)\n");
  EXPECT_EQ(all(std::string("model: m\n\0", 10)),
            "job.yaml:2:1: error: holds the control character 0x00, which no text has\n");
  EXPECT_EQ(all("model: m\n\tname: x\n"),
            "job.yaml:2:1: error: not valid YAML: illegal tab when looking for indentation (indent with blanks)\n");
  EXPECT_EQ(all("sampling: {top_k: 1\nmodel: m\n"),
            "job.yaml:2:6: error: not valid YAML: end of map flow not found (before this place a { is not closed, or a "
            "comma is missing)\n");
  EXPECT_EQ(all("\x89HDF\r\n\x1a\n"),
            "job.yaml:1:1: error: is an HDF5 file, a job file is needed (tpinfer show FILE shows a result)\n");
  EXPECT_EQ(all("model: m\n? [a, b]\n: c\n"),
            "job.yaml:2:3: error: a key must be plain text (or a '[' or '{' here lacks its end)\n");
  EXPECT_EQ(
      all(kSmallest + "name: &a x\n"),
      "job.yaml:4:7: error: anchors and aliases (&name, *name) are not read in a job file (write the value out)\n");
  EXPECT_EQ(all(kSmallest + "name: !!int 3\n"),
            "job.yaml:4:7: error: the tag \"tag:yaml.org,2002:int\" is not read in a job file (leave it out)\n");
  EXPECT_EQ(all(kSmallest + "sampling:\n  top_k: 1\n  top_k: 2\n"),
            "job.yaml:6:3: error: the key \"top_k\" occurs twice in one mapping, first in line 5 (keep one)\n");
}

double seconds_for(const std::string& text, const std::string& expected) {
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  const auto lines = complaints(text);
  EXPECT_FALSE(lines.empty());
  bool found = false;
  for (const auto& line : lines) found = found || line.find(expected) != std::string::npos;
  EXPECT_TRUE(found) << expected << " not in: " << (lines.empty() ? "" : lines[0]);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(JobErrors, HostileTextsEndSoon) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i)
    bomb += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  EXPECT_LT(seconds_for(bomb + kSmallest, "anchors and aliases"), 1.0);
  const std::size_t most = std::size_t{1} << 20;
  const auto repeat = [&](const std::string& part, std::string text = {}) {
    while (text.size() + part.size() <= most) text += part;
    return text;
  };
  const std::string unfinished = "a '[' or '{' here lacks its end";
  EXPECT_LT(seconds_for("a: " + std::string(17, '[') + std::string(17, ']'), "nested deeper than 16 levels"), 1.0);
  EXPECT_LT(seconds_for(repeat("["), unfinished), 10.0);
  EXPECT_LT(seconds_for(repeat("{a: "), unfinished), 10.0);
  EXPECT_LT(seconds_for(repeat("- "), "nested deeper than 16 levels"), 10.0);
  EXPECT_LT(seconds_for(repeat("? "), "a key must be plain text"), 10.0);
  EXPECT_LT(seconds_for(repeat("- a\n"), "more than 20000 values"), 10.0);
  EXPECT_LT(seconds_for(repeat("a,\n", "k: ["), "more than 20000 values"), 10.0);
  EXPECT_LT(seconds_for(repeat("k: \n"), "occurs twice"), 10.0);
  std::string keys;
  for (int i = 0; keys.size() + 16 < most; ++i) keys += fmt::format("k{}: 1\n", i);
  EXPECT_LT(seconds_for(keys, "more than 20000 values"), 10.0);
  EXPECT_LT(seconds_for(repeat("x", "\""), "not valid YAML"), 10.0);
}

}  // namespace
}  // namespace tpinfer
