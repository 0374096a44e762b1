#include "output/result_reader.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "output/file_checksum.hpp"
#include "output/hdf5_read.hpp"
#include "output/result_layout.hpp"

namespace tpinfer {

namespace {

/// Whether the file has a checksum, which then is right.
bool check_file(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) fail_input("{}: it is a folder, not a result file", file.string());
  ChecksumState state{};
  try {
    state = check_checksum(file);
  } catch (const std::system_error& error) {
    fail_input("cannot read {}: {}", file.string(), error.code().message());
  }
  if (state == ChecksumState::wrong)
    throw Error(ExitCode::input, fmt::format("{}: its bytes do not match its checksum", file.string()),
                "the file is damaged; take another copy or run the job again");
  return state == ChecksumState::right;
}

/// HDF5 ends the file with its content, so what follows there must have been a checksum.
void check_end(const Hdf5Context& context, hid_t file) {
  haddr_t end = 0;
  context.check(H5Fget_eoa(file, &end), "its size");
  if (const auto size = std::filesystem::file_size(context.file); size != end)
    context.fail("its checksum", fmt::format("{} bytes at its end are none", size - end));
}

void check_format(const GroupReader& root, const std::string& file) {
  std::string format;
  if (root.has_attribute("format")) root.attribute("format", format);
  if (format != kResultFormat)
    throw Error(ExitCode::input, fmt::format("{}: its attribute format is '{}', not '{}'", file, format, kResultFormat),
                "name a result file of tpinfer");
  std::int32_t version = 0;
  root.attribute("format_version", version);
  if (version != kResultFormatVersion)
    throw Error(
        ExitCode::input,
        fmt::format("{}: it has format version {}, this tpinfer reads version {}", file, version, kResultFormatVersion),
        "use the tpinfer that wrote it, or a newer one");
}

std::pair<std::int64_t, std::int32_t> key_of(const AnswerRow& row) { return {row.prompt_index, row.sample_index}; }

void check_prompt_of(const GroupReader& results, const AnswerRow& row, std::size_t prompts) {
  if (row.prompt_index < 0 || std::cmp_greater_equal(row.prompt_index, prompts))
    results.fail("prompt_index", fmt::format("{} is no row of the {} prompts", row.prompt_index, prompts));
}

[[noreturn]] void fail_order(const GroupReader& results) {
  results.fail("prompt_index", "the rows are not in order of prompt and sample");
}

/// A result file open for reading, of the right format.
class OpenResult {
 public:
  explicit OpenResult(const std::filesystem::path& file) : context_{file.string(), ExitCode::input} {
    const bool has_checksum = check_file(file);
    guarded([&] {
      const auto access = unlocked_access(context_);
      file_ = Hdf5File(context_.check(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), "it as HDF5"));
      if (!has_checksum) check_end(context_, file_.get());
      root_.emplace(context_, Hdf5Group(context_.check(H5Gopen2(file_.get(), "/", H5P_DEFAULT), "the root group")), "");
      check_format(*root_, context_.file);
    });
  }
  OpenResult(const OpenResult&) = delete;  // root_ points to context_
  OpenResult& operator=(const OpenResult&) = delete;

  const GroupReader& root() const { return *root_; }

  /// What `read` returns; an allocation that fails there is the file's fault.
  template <class Read>
  std::invoke_result_t<Read> guarded(Read read) const {
    try {
      return read();
    } catch (const std::bad_alloc&) {
      context_.fail("it", "it claims more than memory holds");
    } catch (const std::length_error&) {
      context_.fail("it", "it claims more than memory holds");
    }
  }

 private:
  QuietHdf5 quiet_;
  Hdf5Context context_;
  Hdf5File file_;
  std::optional<GroupReader> root_;
};

void check_answers(const GroupReader& results, const RunResult& result) {
  for (const auto& row : result.answers) check_prompt_of(results, row, result.prompts.size());
  if (std::ranges::adjacent_find(result.answers, std::ranges::greater_equal{}, key_of) != result.answers.end())
    fail_order(results);
}

RunResult read_content(const GroupReader& root) {
  RunResult result;
  describe_run(root, result);
  describe_job_and_model(root, result);
  describe_plan(root, result);
  describe_prompts(root.table("prompts", result.prompts));
  describe_answers(root.table("results", result.answers));
  check_answers(root.group("results"), result);
  describe_ranks(root, result);
  describe_steps(root.table("steps", result.steps));
  describe_history(root, result);
  return result;
}

/// Prompts and answers read part by part. Both tables are in order of the prompts, so one walk of each suffices.
class FileRows : public RowSource {
 public:
  explicit FileRows(const std::filesystem::path& file) : file_(file) {
    file_.guarded([&] {
      describe_run(file_.root(), run_);
      describe_job_and_model(file_.root(), run_);
    });
    facts_ = {run_.run_id, run_.created, run_.model_path};
    run_ = {};
  }

  const RunLabel& facts() const override { return facts_; }

  bool next(PromptRow& prompt, std::vector<AnswerRow>& answers) override {
    return file_.guarded([&] {
      if (next_prompt_ == run_.prompts.size() && !read_prompts()) return check_all_taken();
      prompt = std::move(run_.prompts[next_prompt_]);
      const auto index = static_cast<std::int64_t>(prompts_.first + next_prompt_++);
      answers.clear();
      while (has_answer() && run_.answers[next_answer_].prompt_index == index)
        answers.push_back(std::move(run_.answers[next_answer_++]));
      return true;
    });
  }

 private:
  /// Bounds on what is held at once.
  static constexpr std::size_t kMostRows = 4096;
  static constexpr std::int64_t kMostTokens = std::int64_t{1} << 18;

  bool read_prompts() {
    prompts_ = prompt_table_.part("token_offsets", prompts_.first + prompts_.count, kMostRows, kMostTokens);
    describe_prompts(file_.root().table("prompts", run_.prompts, prompts_));
    next_prompt_ = 0;
    return prompts_.count > 0;
  }

  /// Whether there is one more answer, which next_answer_ then names.
  bool has_answer() {
    if (next_answer_ < run_.answers.size()) return true;
    answers_ = results_.part("token_offsets", answers_.first + answers_.count, kMostRows, kMostTokens);
    describe_answers(file_.root().table("results", run_.answers, answers_));
    next_answer_ = 0;
    for (const AnswerRow& row : run_.answers) {
      if (last_key_ >= key_of(row)) fail_order(results_);
      last_key_ = key_of(row);
    }
    return answers_.count > 0;
  }

  bool check_all_taken() {
    if (has_answer()) check_prompt_of(results_, run_.answers[next_answer_], prompts_.first);
    return false;
  }

  OpenResult file_;
  GroupReader prompt_table_ = file_.root().group("prompts"), results_ = file_.root().group("results");
  RunLabel facts_;
  RunResult run_;  ///< the part of its prompts and answers at hand
  RowRange prompts_, answers_;
  std::size_t next_prompt_ = 0, next_answer_ = 0;  ///< rows of the parts
  std::pair<std::int64_t, std::int32_t> last_key_{-1, 0};
};

}  // namespace

RunResult read_result_file(const std::filesystem::path& file) {
  const OpenResult opened(file);
  return opened.guarded([&] { return read_content(opened.root()); });
}

std::unique_ptr<RowSource> open_result_rows(const std::filesystem::path& file) {
  return std::make_unique<FileRows>(file);
}

}  // namespace tpinfer
