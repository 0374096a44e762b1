#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/mapped_file.hpp"
#include "checkpoint/tensor_info.hpp"
#include "core/log.hpp"

namespace tpinfer {

struct CheckpointFile {
  std::string name;            ///< as in the index, relative to the folder
  std::filesystem::path path;  ///< folder / name; empty: there is none, its tensors are random
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;  ///< where the weights begin
  std::uint64_t header_hash = 0;
  std::int64_t modified = 0;  ///< ns since 1970
};

/// The tensors of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json names.
/// Made from index and headers alone; no byte of a weight is read, but those of tensors that are stored twice.
class Checkpoint {
 public:
  /// Error(input), a sentence that names file and tensor, when there are no safetensors weights, or a file is missing,
  /// cut short, something else, or contradicts itself or the index.
  static Checkpoint open(const std::filesystem::path& folder, const Log& log);

  /// A checkpoint that no file holds: these tensors one after the other, with random weights.
  static Checkpoint random(std::vector<TensorInfo> tensors);

  const std::vector<CheckpointFile>& files() const noexcept { return files_; }
  /// Sorted by name.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  /// nullptr when there is none of that name.
  const TensorInfo* find(std::string_view name) const noexcept;
  /// Bytes of all files, headers included.
  std::uint64_t file_bytes() const noexcept;

 private:
  void add_file(const std::filesystem::path& folder, const std::string& name);

  std::vector<CheckpointFile> files_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace tpinfer
