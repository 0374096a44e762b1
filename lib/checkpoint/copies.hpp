#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/shard_index.hpp"
#include "checkpoint/tensor_info.hpp"
#include "core/log.hpp"

namespace tpinfer {

/// Leaves one of each tensor that several shards hold: the one that the index names. Error(input), naming tensor and
/// files, when a copy has another type, shape (seen in the headers) or other bytes (which are read for it); one warning
/// about all copies that are the same. `tensors`: of all shards, sorted by name.
void drop_copies(const ShardIndex& index, const std::filesystem::path& folder, std::vector<TensorInfo>& tensors,
                 const Log& log);

}  // namespace tpinfer
