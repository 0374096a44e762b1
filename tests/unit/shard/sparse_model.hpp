#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/model_folder.hpp"
#include "model/llama_config.hpp"
#include "shard/sharding_plan.hpp"

namespace tpinfer {

/// A tensor that a test writes into a header.
struct StoredEntry {
  std::string name;
  DType dtype = DType::float16;
  std::vector<std::int64_t> shape;
};

/// What a checkpoint of this model holds; a tied head is not stored.
inline std::vector<StoredEntry> entries_of(const ModelSpec& spec, DType dtype) {
  std::vector<StoredEntry> entries;
  for (const ExpectedTensor& tensor : spec.tensors)
    if (!tensor.ignored) entries.push_back({tensor.name, dtype, tensor.shape});
  return entries;
}

inline std::uint64_t entry_bytes(const StoredEntry& entry) {
  std::uint64_t bytes = dtype_size(entry.dtype);
  for (const std::int64_t n : entry.shape) bytes *= static_cast<std::uint64_t>(n);
  return bytes;
}

/// Writes folder/model.safetensors with that header and a hole for all weights: any size takes no room.
inline void write_sparse_model(const std::filesystem::path& folder, const std::vector<StoredEntry>& entries) {
  std::vector<std::string> parts;
  std::uint64_t at = 0;
  for (const StoredEntry& entry : entries) {
    const std::uint64_t end = at + entry_bytes(entry);
    parts.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", entry.name,
                                safetensors_name(entry.dtype), fmt::join(entry.shape, ","), at, end));
    at = end;
  }
  const std::filesystem::path path = folder / "model.safetensors";
  test_files::write_file(path, test_files::safetensors_file(test_files::header_of(parts), 0));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + at);
}

/// Claims as a complete checkpoint of one type would give them, without a file. `stored` keeps what they point to.
inline Claims complete_claims(const ModelSpec& spec, DType dtype, std::vector<TensorInfo>& stored) {
  stored.clear();
  std::uint64_t at = 8;
  for (const StoredEntry& entry : entries_of(spec, dtype)) {
    stored.push_back(
        {.name = entry.name, .dtype = dtype, .shape = entry.shape, .offset = at, .bytes = entry_bytes(entry)});
    at += stored.back().bytes;
  }
  std::ranges::sort(stored, {}, &TensorInfo::name);
  Claims claims{.loaded = {}, .ignored = {}, .stored_dtype = dtype};
  for (const TensorInfo& tensor : stored) {
    claims.loaded.push_back({&*std::ranges::find(spec.tensors, tensor.name, &ExpectedTensor::name), &tensor});
    claims.parameters += tensor.bytes / dtype_size(dtype);
  }
  return claims;
}

}  // namespace tpinfer
