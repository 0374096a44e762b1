#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "checkpoint/copies.hpp"
#include "checkpoint/model_file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/shard_index.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

void require_folder(const fs::path& folder) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (status.type() == fs::file_type::not_found)
    throw Error(ExitCode::input, fmt::format("{}: there is no such folder", folder.string()),
                "a model is given by the folder of its downloaded files, not by its name on a hub");
  if (failed) fail_input("{}: cannot be looked up: {}", folder.string(), failed.message());
  if (status.type() != fs::file_type::directory)
    throw Error(ExitCode::input, fmt::format("{}: is a file, the model's folder is needed", folder.string()),
                fmt::format("perhaps {}", folder.has_parent_path() ? folder.parent_path().string() : "."));
}

// Sorted names in the folder; empty when it may not be listed (only hints are made from it).
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "a, b, c and 12 more"
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(names.size(), kShown);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

template <class Wanted>
std::vector<std::string> only(const std::vector<std::string>& names, Wanted wanted) {
  std::vector<std::string> found;
  std::copy_if(names.begin(), names.end(), std::back_inserter(found), wanted);
  return found;
}

bool is_safetensors(const std::string& name) { return name.ends_with(".safetensors"); }

bool is_other_format(const std::string& name) {
  static constexpr std::string_view kEnds[] = {".bin", ".pth", ".pt", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return name.ends_with(end); });
}

// The folder has neither the single file nor the index: say what it has instead.
[[noreturn]] void refuse_without_weights(const fs::path& folder) {
  const std::string where = folder.string();
  const std::vector<std::string> names = names_in(folder);
  if (const auto found = only(names, is_safetensors); !found.empty())
    throw Error(ExitCode::input,
                fmt::format("{}: has {}, but neither {} nor {}", where, list_of(found), kSingleFile, kIndexFile),
                "download the index too, or rename the file when it is the only one");
  if (const auto found = only(names, is_other_format); !found.empty())
    throw Error(ExitCode::input,
                fmt::format("{}: has its weights in {}, but only safetensors files are read", where, list_of(found)),
                fmt::format("download the model's safetensors files, or convert once: python3 -c \"from transformers "
                            "import AutoModelForCausalLM as M; M.from_pretrained('{}', torch_dtype='auto')"
                            ".save_pretrained('{}', safe_serialization=True)\"",
                            where, where));
  if (std::binary_search(names.begin(), names.end(), "snapshots"))
    throw Error(ExitCode::input, fmt::format("{}: is a hub cache, not a model's folder with {}", where, kSingleFile),
                fmt::format("give one of the folders in {}", (folder / "snapshots").string()));
  throw Error(ExitCode::input, fmt::format("{}: has no weights: neither {} nor {}", where, kSingleFile, kIndexFile),
              "incomplete download, or the wrong folder");
}

// All files that the index names but the folder lacks, in one complaint.
void refuse_missing_shards(const ShardIndex& index, const fs::path& folder) {
  const auto missing = only(index.files, [&](const std::string& name) { return !is_in_folder(folder / name); });
  if (missing.empty()) return;
  const auto unnamed = only(names_in(folder), [&](const std::string& name) {
    return is_safetensors(name) && !std::binary_search(index.files.begin(), index.files.end(), name);
  });
  std::vector<std::string> shown(missing);
  for (std::string& name : shown) name = in_quotes(name);
  throw Error(ExitCode::input,
              fmt::format("{}: {} of its {} files are not in the folder: {}", index.where, missing.size(),
                          index.files.size(), list_of(shown)),
              unnamed.empty() ? "incomplete download?"
                              : "the index does not fit the folder, which has these besides: " + list_of(unnamed));
}

}  // namespace

void Checkpoint::add_file(const fs::path& folder, const std::string& name) {
  const ModelFile file = open_model_file(folder / name);
  SafetensorsHeader header = read_safetensors_header(file, static_cast<std::uint32_t>(files_.size()));
  files_.push_back({name, folder / name, file.bytes, header.header_bytes, header.hash, file.modified});
  tensors_.insert(tensors_.end(), std::make_move_iterator(header.tensors.begin()),
                  std::make_move_iterator(header.tensors.end()));
}

Checkpoint Checkpoint::open(const fs::path& folder, const Log& log) {
  require_folder(folder);
  Checkpoint checkpoint;
  const bool single = is_in_folder(folder / kSingleFile);
  if (is_in_folder(folder / kIndexFile)) {
    const ShardIndex index = read_shard_index(folder / kIndexFile);
    refuse_missing_shards(index, folder);
    for (const std::string& name : index.files) checkpoint.add_file(folder, name);
    std::stable_sort(checkpoint.tensors_.begin(), checkpoint.tensors_.end(),
                     [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
    drop_copies(index, folder, checkpoint.tensors_, log);
    check_against_shards(index, checkpoint.tensors_);
    if (single && !std::binary_search(index.files.begin(), index.files.end(), kSingleFile))
      log.warning("{}: {} is not read, because {} names other files", folder.string(), kSingleFile, kIndexFile);
  } else if (single) {
    checkpoint.add_file(folder, kSingleFile);
  } else {
    refuse_without_weights(folder);
  }
  if (checkpoint.tensors_.empty()) fail_input("{}: {} holds no tensors", folder.string(), checkpoint.files_[0].name);
  log.debug("{}: {} tensors in {} files, {}", folder.string(), checkpoint.tensors_.size(), checkpoint.files_.size(),
            format_bytes(checkpoint.file_bytes()));
  return checkpoint;
}

Checkpoint Checkpoint::random(std::vector<TensorInfo> tensors) {
  Checkpoint checkpoint;
  checkpoint.tensors_ = std::move(tensors);
  std::ranges::sort(checkpoint.tensors_, {}, &TensorInfo::name);
  CheckpointFile file{.name = "random weights", .path = {}};
  for (TensorInfo& tensor : checkpoint.tensors_) {
    tensor.offset = file.bytes;
    tensor.bytes = dtype_size(tensor.dtype);
    for (const std::int64_t size : tensor.shape) tensor.bytes *= static_cast<std::uint64_t>(size);
    file.bytes += tensor.bytes;
  }
  checkpoint.files_.push_back(std::move(file));
  return checkpoint;
}

const TensorInfo* Checkpoint::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::uint64_t Checkpoint::file_bytes() const noexcept {
  return std::accumulate(files_.begin(), files_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const CheckpointFile& file) { return sum + file.bytes; });
}

}  // namespace tpinfer
