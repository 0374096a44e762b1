#include "output/result_reader.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>

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

void check_answers(const GroupReader& results, const RunResult& result) {
  const auto key = [](const AnswerRow& row) { return std::pair(row.prompt_index, row.sample_index); };
  for (const auto& row : result.answers)
    if (row.prompt_index < 0 || std::cmp_greater_equal(row.prompt_index, result.prompts.size()))
      results.fail("prompt_index",
                   fmt::format("{} is no row of the {} prompts", row.prompt_index, result.prompts.size()));
  if (std::ranges::adjacent_find(result.answers, std::ranges::greater_equal{}, key) != result.answers.end())
    results.fail("prompt_index", "the rows are not in order of prompt and sample");
}

RunResult read_content(const GroupReader& root, const std::string& file) {
  check_format(root, file);
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

}  // namespace

RunResult read_result_file(const std::filesystem::path& file) {
  const bool has_checksum = check_file(file);
  const QuietHdf5 quiet;
  const Hdf5Context context{file.string(), ExitCode::input};
  try {
    const auto access = unlocked_access(context);
    const Hdf5File handle(context.check(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), "it as HDF5"));
    if (!has_checksum) check_end(context, handle.get());
    return read_content(
        GroupReader(context, Hdf5Group(context.check(H5Gopen2(handle.get(), "/", H5P_DEFAULT), "the root group")), ""),
        file.string());
  } catch (const std::bad_alloc&) {
    context.fail("it", "it claims more than memory holds");
  } catch (const std::length_error&) {
    context.fail("it", "it claims more than memory holds");
  }
}

}  // namespace tpinfer
