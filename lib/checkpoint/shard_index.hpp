#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/tensor_info.hpp"

namespace tpinfer {

/// The content of model.safetensors.index.json.
struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::uint32_t file = 0;  ///< index into `files`
  };
  std::string where;               ///< the index's path, which begins every complaint
  std::vector<std::string> files;  ///< plain relative names, sorted, each once
  std::vector<Entry> entries;      ///< sorted by tensor, each tensor once
};

/// Error(input) unless it is JSON with a "weight_map" of tensor names to plain relative file names: no absolute path,
/// no "..", so that an index cannot name a file outside the model's folder.
ShardIndex read_shard_index(const std::filesystem::path& path);

/// Error(input) unless index and shards agree both ways: every tensor is in the file that the index names, and every
/// tensor of a shard is in the index. `tensors`: of all shards, sorted by name, each name once.
void check_against_shards(const ShardIndex& index, const std::vector<TensorInfo>& tensors);

}  // namespace tpinfer
