// Includes, --set, --limit.
#include "job_support.hpp"

namespace tpinfer {
namespace {

std::vector<std::string> load_complaints(const std::filesystem::path& file, const JobOverrides& overrides = {}) {
  try {
    load_job(file, overrides);
  } catch (const JobError& e) {
    return e.lines();
  }
  return {};
}

TEST(JobInclude, EarlierFirstAndTheJobsOwnKeysWin) {
  const TemporaryFolder folder;
  folder.write("presets/deep/c.yaml", "sampling: {max_tokens: 1, top_k: 1, top_p: 0.1, seed: 1}\n");
  folder.write("presets/a.yaml", "include: [deep/c.yaml]\nsampling: {max_new_tokens: 2, top_k: 2, top_p: 0.2}\n");
  folder.write("presets/b.yaml",
               "sampling:\n  max_new_tokens: 3\n  top_k: 3\nmodel: {path: from_b, dtype: fp32}\nengine:\n");
  const auto file = folder.write("jobs/job.yaml",
                                 "include: [../presets/a.yaml, ../presets/b.yaml]\nsampling: {max_new_tokens: 4}\n"
                                 "prompts: {file: p}\noutput: {file: o}\n");
  const Job job = load_job(file);
  EXPECT_EQ(job.sampling.max_new_tokens, 4);
  EXPECT_EQ(job.sampling.top_k, 3);
  EXPECT_EQ(job.sampling.top_p, 0.2);
  EXPECT_EQ(job.sampling.seed, 1);
  EXPECT_EQ(job.model.dtype, DType::float32);
  // relative to the job file, not to the preset
  EXPECT_EQ(job.model.path, (folder.path() / "jobs/from_b").string());
  EXPECT_EQ(job.source_name, file.string());
  EXPECT_TRUE(parse_job_text(resolved_yaml(job), "resolved", "/elsewhere") == job);
}

TEST(JobInclude, AnEmptySectionKeepsThePreset) {
  const TemporaryFolder folder;
  folder.write("preset.yaml", "engine: {max_num_seqs: 7}\n");
  const Job job = load_job(folder.write("job.yaml", "include: [preset.yaml]\nengine:\n" + kSmallest));
  EXPECT_EQ(job.engine.max_num_seqs, 7);
}

TEST(JobInclude, CirclesAreRefused) {
  const TemporaryFolder folder;
  const auto a = folder.write("a.yaml", "include: b.yaml\n" + kSmallest);
  folder.write("b.yaml", "include:\n  - ./a.yaml\n");
  const auto lines = load_complaints(a);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("b.yaml:2:5: error: include: includes go in a circle: "), std::string::npos) << lines[0];
  const auto self = folder.write("self.yaml", "include: [self.yaml]\n" + kSmallest);
  EXPECT_NE(load_complaints(self).at(0).find("circle"), std::string::npos);
}

TEST(JobInclude, DoublingIncludesAreBounded) {
  const TemporaryFolder folder;
  for (int i = 0; i < 30; ++i) {
    const std::string next = std::to_string(i + 1) + ".yaml";
    folder.write(std::to_string(i) + ".yaml", "include: [" + next + ", " + next + "]\n");
  }
  folder.write("30.yaml", kSmallest);
  const auto lines = load_complaints(folder.path() / "0.yaml");
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("more than 64 includes"), std::string::npos) << lines[0];
}

TEST(JobInclude, FaultsNameTheirFile) {
  const TemporaryFolder folder;
  folder.write("preset.yaml", "engine:\n  max_num_seqs: none\n  sampling: 3\n");
  const auto file = folder.write("job.yaml", "include: [preset.yaml]\n" + kSmallest);
  const auto lines = load_complaints(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("preset.yaml:2:17: error: engine.max_num_seqs: must be a whole number"), std::string::npos);
  EXPECT_NE(lines[1].find("preset.yaml:3:3: error: engine.sampling: unknown key"), std::string::npos);
  const auto missing = folder.write("missing.yaml", kSmallest + "include: [no.yaml]\n");
  const auto one = load_complaints(missing);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_NE(one[0].find("missing.yaml:4:11: error: include: "), std::string::npos) << one[0];
  EXPECT_NE(one[0].find("No such file"), std::string::npos);
}

TEST(JobSet, Precedence) {
  const Job job =
      parse("prompts: {file: p}\noutput: {file: a.h5}\nsampling: {max_new_tokens: 4, top_k: 4}\n",
            {.sets = {"model=first", "model.path=second", "sampling.max_tokens=5", "sampling.top_k=6",
                      "sampling.top_k=7", "prompts.select={offset: 3}", "name=", "engine.max_num_seqs=9",
                      "memory.cpu_memory_limit=2GiB", "output.file=b=c.h5", "sampling.stop_token_ids=[1, 2]"},
             .limit = 12});
  EXPECT_EQ(job.model.path, "/base/second");
  EXPECT_EQ(job.sampling.max_new_tokens, 5);
  EXPECT_EQ(job.sampling.top_k, 7);
  EXPECT_EQ(job.prompts.select.offset, 3);
  EXPECT_EQ(job.prompts.select.limit, 12);
  EXPECT_EQ(job.engine.max_num_seqs, 9);
  EXPECT_EQ(job.memory.cpu_memory_limit, std::uint64_t{2} << 30);
  EXPECT_EQ(job.output.file, "/base/b=c.h5");
  EXPECT_EQ(job.sampling.stop_token_ids, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(job.name, std::nullopt);
}

TEST(JobSet, FaultsNameTheOption) {
  const auto one = [](const std::string& set) {
    const auto lines = complaints(kSmallest, {.sets = {set}, .limit = {}});
    EXPECT_EQ(lines.size(), 1U) << set;
    return lines.empty() ? "" : lines[0];
  };
  EXPECT_EQ(one("sampling.tempreture=1"), "--set sampling.tempreture: unknown key (did you mean temperature?)");
  EXPECT_EQ(one("sampling.top_p=1.5"), "--set sampling.top_p: must be a number above 0 and at most 1, it is 1.5");
  EXPECT_EQ(one("sampling={top_p: 1.5}"),
            "--set sampling: sampling.top_p: must be a number above 0 and at most 1, it is 1.5");
  EXPECT_EQ(one("sampling.top_k"), "--set sampling.top_k: must look like key.path=value");
  EXPECT_EQ(one("=3"), "--set : must look like key.path=value");
  EXPECT_EQ(one("a..b=3"), "--set a..b: must look like key.path=value");
  EXPECT_EQ(one("include=[x]"), "--set include: includes stand in the job file only");
  EXPECT_EQ(one("sampling.top_k='1"),
            "--set sampling.top_k: not valid YAML: illegal EOF in scalar (a quotation mark is not closed)");
  EXPECT_EQ(one("memory.on_no_fit=shrin"), "--set memory.on_no_fit: must be error or shrink, it is shrin");
  EXPECT_EQ(one("engine.prefix_sharing=no"), "--set engine.prefix_sharing: must be true or false, it is no");
  EXPECT_EQ(complaints(kSmallest, {.sets = {}, .limit = 0}).at(0),
            "--limit: must be null or a whole number of at least 1, it is 0");
}

TEST(JobLoad, FilesThatAreNone) {
  const TemporaryFolder folder;
  EXPECT_NE(load_complaints(folder.path() / "no.yaml").at(0).find("no.yaml: cannot be opened: No such file"),
            std::string::npos);
  EXPECT_NE(load_complaints(folder.path()).at(0).find("is a folder"), std::string::npos);
  const auto big = folder.write("big.yaml", std::string(10'000'000, '#'));
  EXPECT_NE(load_complaints(big).at(0).find("longer than the limit of 1048576 bytes"), std::string::npos);
  EXPECT_NE(complaints(std::string(10'000'000, '#')).at(0).find("longer than the limit"), std::string::npos);
}

TEST(JobLoad, RelativePathsBeginAtTheJobFile) {
  const TemporaryFolder folder;
  folder.write("sub/job.yaml", kSmallest);
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Job job = load_job("sub/job.yaml");
  std::filesystem::current_path(folder.path() / "sub");
  const Job same = load_job("job.yaml");
  std::filesystem::current_path(here);
  EXPECT_EQ(job.model.path, (std::filesystem::weakly_canonical(folder.path()) / "sub/m").string());
  EXPECT_TRUE(job == same);
  EXPECT_EQ(job.source_name, "sub/job.yaml");
}

}  // namespace
}  // namespace tpinfer
