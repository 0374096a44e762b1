#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_file.hpp"
#include "checkpoint/tensor_info.hpp"

namespace tpinfer {

/// Longest header that is read, as in the safetensors library.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxDimensions = 64;

/// Parses the JSON of a safetensors header. Error(input), beginning with `where` and naming the tensor, unless every
/// entry has a known dtype, a shape and offsets that agree with them, no name occurs twice, and the tensors tile the
/// `data_bytes` that follow the header exactly: no overlap, no hole, nothing before, nothing after.
/// The result is sorted by name; `file` and `data_start` (bytes before the data) go into it.
std::vector<TensorInfo> parse_safetensors_header(std::string_view json, const std::string& where, std::uint32_t file,
                                                 std::uint64_t data_start, std::uint64_t data_bytes);

struct SafetensorsHeader {
  std::uint64_t header_bytes = 0;  ///< where the data begins
  std::uint64_t hash = 0;          ///< XXH3 of its JSON: one hash and one size, the same tensors in the same places
  std::vector<TensorInfo> tensors;
};

/// Reads and parses the header of an open file, and nothing but the header. Files that are no safetensors are refused
/// with what they are.
SafetensorsHeader read_safetensors_header(const ModelFile& file, std::uint32_t file_index);

}  // namespace tpinfer
