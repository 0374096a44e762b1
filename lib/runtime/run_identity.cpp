#include "runtime/run_identity.hpp"

#include <algorithm>

#include "checkpoint/model_file.hpp"
#include "core/bytes.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWholeBytes = std::uint64_t{8} << 20;
constexpr std::uint64_t kBlockBytes = 16384;
constexpr std::uint64_t kBlocks = 64;

std::uint64_t hash_part(const ModelFile& file, std::uint64_t begin, std::uint64_t count, std::uint64_t seed) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20;
  for (std::uint64_t done = 0; done < count; done += kMost)
    seed = hash_bytes(read_bytes(file, begin + done, std::min(kMost, count - done)), seed);
  return seed;
}

void add_if_there(RunIdentity& identity, const fs::path& folder, const char* name) {
  if (is_in_folder(folder / name)) identity.files.push_back(file_identity(folder / name, name));
}

}  // namespace

RunIdentity::File file_identity(const fs::path& path, const std::string& name) {
  const ModelFile file = open_model_file(path);
  RunIdentity::File out{.name = name, .bytes = file.bytes};
  if (file.bytes <= kWholeBytes) {
    out.hash = hash_part(file, 0, file.bytes, 0);
    return out;
  }
  const std::uint64_t stride = (file.bytes - kBlockBytes) / (kBlocks + 1);
  for (std::uint64_t block = 0; block <= kBlocks; ++block)
    out.hash = hash_part(file, block * stride, kBlockBytes, out.hash);
  out.hash = hash_part(file, file.bytes - kBlockBytes, kBlockBytes, out.hash);
  return out;
}

RunIdentity identity_of(const Job& job, const Preparation& prepared, KernelSet kernels) {
  RunIdentity identity{.files = {},
                       .dtype = std::string(dtype_name(prepared.plan.compute_dtype)),
                       .numeric_version = kNumericVersion,
                       .kernel_set = std::string(kernel_set_name(kernels))};
  for (const CheckpointFile& file : prepared.model->checkpoint.files())
    identity.files.push_back(file.path.empty() ? RunIdentity::File{.name = file.name, .bytes = file.bytes}
                                               : file_identity(file.path, file.name));
  const fs::path folder = job.model.path;
  add_if_there(identity, folder, "config.json");
  if (job.model.architecture_plan)
    identity.files.push_back(file_identity(*job.model.architecture_plan, "architecture_plan"));
  if (job.model.generation_config != GenerationConfigUse::none)
    add_if_there(identity, folder, "generation_config.json");
  if (prepared.tokenizer)
    for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json",
                             "special_tokens_map.json", "added_tokens.json"})
      add_if_there(identity, job.model.tokenizer_path(), name);
  return identity;
}

std::vector<std::string> differences(const RunIdentity& there, const RunIdentity& now) {
  std::vector<std::string> out;
  if (there.files.empty() && !now.files.empty()) out.emplace_back("the files of the model are not recorded there");
  const auto named = [](const RunIdentity& identity, const std::string& name) {
    return std::ranges::find(identity.files, name, &RunIdentity::File::name);
  };
  for (const auto& file : there.files) {
    const auto mine = named(now, file.name);
    if (mine == now.files.end())
      out.push_back(fmt::format("model file {}: not used now", file.name));
    else if (mine->bytes != file.bytes)
      out.push_back(fmt::format("model file {}: {} bytes there, {} now", file.name, file.bytes, mine->bytes));
    else if (mine->hash != file.hash)
      out.push_back(fmt::format("model file {}: other content", file.name));
  }
  if (!there.files.empty())
    for (const auto& file : now.files)
      if (named(there, file.name) == there.files.end())
        out.push_back(fmt::format("model file {}: not used there", file.name));
  if (there.dtype != now.dtype) out.push_back(fmt::format("dtype: {} there, {} now", there.dtype, now.dtype));
  if (there.numeric_version != now.numeric_version)
    out.push_back(fmt::format("numeric version: {} there, {} now", there.numeric_version, now.numeric_version));
  if (there.kernel_set != now.kernel_set)
    out.push_back(fmt::format("kernel set: {} there, {} now (TPINFER_ISA)", there.kernel_set, now.kernel_set));
  return out;
}

}  // namespace tpinfer
