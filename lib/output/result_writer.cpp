#include "output/result_writer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "output/file_checksum.hpp"
#include "output/hdf5_write.hpp"
#include "output/result_layout.hpp"

namespace tpinfer {

namespace {

constexpr std::size_t kMostSteps = 10'000;

template <class... Args>
void require(bool truth, fmt::format_string<Args...> text, Args&&... args) {
  if (!truth) throw Error(ExitCode::internal, fmt::format(text, std::forward<Args>(args)...));
}

void check_top(std::size_t tokens, std::int32_t k, std::size_t ids, std::size_t logprobs, const std::string& row) {
  const auto want = k < 0 ? std::size_t{0} : tokens * static_cast<std::size_t>(k);
  require(k >= 0 && ids == want && logprobs == want,
          "{} has {} top ids and {} top log probabilities for {} tokens, k {}", row, ids, logprobs, tokens, k);
}

void check_rows(const RunResult& result) {
  for (const auto& prompt : result.prompts) {
    const auto name = fmt::format("prompt '{}'", prompt.id);
    const std::size_t tokens = prompt.token_ids.size(), logprobs = prompt.prompt_logprobs.size();
    require(logprobs == 0 || logprobs == tokens, "{} has {} log probabilities for {} tokens", name, logprobs, tokens);
    check_top(tokens, prompt.prompt_top_k, prompt.prompt_top_ids.size(), prompt.prompt_top_logprobs.size(), name);
  }
  for (const auto& answer : result.answers) {
    const auto name = fmt::format("answer {} of prompt {}", answer.sample_index, answer.prompt_index);
    const std::size_t tokens = answer.token_ids.size(), logprobs = answer.logprobs.size();
    require(answer.prompt_index >= 0 && std::cmp_less(answer.prompt_index, result.prompts.size()),
            "{}: there are {} prompts", name, result.prompts.size());
    require(logprobs == 0 || logprobs == tokens, "{} has {} log probabilities for {} tokens", name, logprobs, tokens);
    check_top(tokens, answer.top_k, answer.top_ids.size(), answer.top_logprobs.size(), name);
  }
  for (const auto& planned : result.memory_planned)
    require(planned.size() <= result.memory_classes.size(), "{} memory classes are planned, {} named", planned.size(),
            result.memory_classes.size());
  for (const auto& rank : result.ranks)
    for (const auto* list : {&rank.weights.planned_by_class, &rank.weights.touched_by_class,
                             &rank.weights.read_by_class, &rank.weights.owned_by_class})
      require(list->size() <= result.weight_classes.size(), "rank {} has {} weight classes, {} are named", rank.rank,
              list->size(), result.weight_classes.size());
}

std::vector<const AnswerRow*> sorted_answers(const RunResult& result) {
  auto rows = GroupWriter::pointers(result.answers);
  const auto key = [](const AnswerRow* row) { return std::pair(row->prompt_index, row->sample_index); };
  std::ranges::sort(rows, {}, key);
  const auto twin = std::ranges::adjacent_find(rows, {}, key);
  if (twin != rows.end())
    require(false, "answer {} of prompt {} is there twice", (*twin)->sample_index, (*twin)->prompt_index);
  return rows;
}

/// Every n-th step and the last.
std::vector<const StepRow*> thinned_steps(const RunResult& result) {
  const std::size_t every = (result.steps.size() + kMostSteps - 1) / kMostSteps;
  std::vector<const StepRow*> rows;
  for (std::size_t i = 0; i < result.steps.size(); ++i)
    if (i % every == every - 1 || i + 1 == result.steps.size()) rows.push_back(&result.steps[i]);
  return rows;
}

void write_content(const GroupWriter& root, const RunResult& result) {
  root.attribute("format", std::string(kResultFormat));
  root.attribute("format_version", kResultFormatVersion);
  root.attribute("attempts", static_cast<std::int64_t>(result.attempts.size()));
  describe_run(root, result);
  describe_job_and_model(root, result);
  describe_plan(root, result);
  describe_prompts(root.table("prompts", result.prompts));
  describe_answers(TableWriter<AnswerRow>(root.group("results"), sorted_answers(result)));
  describe_ranks(root, result);
  describe_steps(TableWriter<StepRow>(root.group("steps"), thinned_steps(result)));
  describe_history(root, result);
}

/// Points the descriptor inside HDF5 at memory, so that closing a file whose disk is full can succeed and gives the
/// disk back what was written.
void divert_to_memory(hid_t file) noexcept {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || !handle) return;
  const FileHandle memory(::memfd_create("abandoned", MFD_CLOEXEC));
  if (memory) ::dup2(memory.get(), *static_cast<int*>(handle));
}

void write_hdf5(const Hdf5Context& context, const std::filesystem::path& part, const RunResult& result) {
  const auto access = unlocked_access(context);
  Hdf5File file(context.check(H5Fcreate(part.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "the file"));
  try {
    write_content(
        GroupWriter(context, Hdf5Group(context.check(H5Gopen2(file.get(), "/", H5P_DEFAULT), "the root group")), ""),
        result);
    context.check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "the file");
  } catch (...) {
    divert_to_memory(file.get());
    throw;
  }
  context.check(H5Fclose(file.release()), "the file");
}

}  // namespace

void write_result_file(const std::filesystem::path& file, const RunResult& result) {
  check_rows(result);
  const QuietHdf5 quiet;
  const Hdf5Context context{file.string(), ExitCode::output};
  PartFile part(file);
  write_hdf5(context, part.path(), result);
  try {
    append_checksum(part.fd());
  } catch (const std::system_error& error) {
    context.fail("the checksum", error.code().message());
  }
  part.commit();
}

std::string hdf5_library_version() {
  const QuietHdf5 quiet;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::string hdf5_build_version() { return fmt::format("{}.{}.{}", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE); }

}  // namespace tpinfer
