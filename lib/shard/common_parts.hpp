#pragma once

#include <cstdint>
#include <vector>

#include "shard/sharding_plan.hpp"

namespace tpinfer {

/// A part of a stored tensor that several ranks hold, which must be the same bytes for all of them.
struct CommonPart {
  std::uint32_t tensor = 0;     ///< index in ShardingPlan::tensors
  std::int32_t axis = 0;        ///< 0 rows, 1 columns; of each matrix of a stacked tensor
  Range range = {};             ///< never reaches beyond one piece of a rank's slice
  bool whole = false;           ///< the tensor is replicated
  std::vector<int> ranks = {};  ///< ascending
};

/// All parts that two or more ranks hold, and all replicated tensors, in order of tensor and range. Found from the
/// slices of the plan alone.
std::vector<CommonPart> common_parts(const ModelSpec& spec, const ShardingPlan& plan);

}  // namespace tpinfer
