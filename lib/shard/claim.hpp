#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "core/log.hpp"
#include "model/model_spec.hpp"

namespace tpinfer {

/// A tensor of the checkpoint with the row of the family's table that claims it.
struct ClaimedTensor {
  const ExpectedTensor* expected = nullptr;
  const TensorInfo* stored = nullptr;
};

struct Claims {
  std::vector<ClaimedTensor> loaded;    ///< sorted by name
  std::vector<std::string> ignored;     ///< buffers and tied heads that nobody loads
  DType stored_dtype = DType::float32;  ///< of the largest share of the bytes
  std::uint64_t parameters = 0;         ///< elements loaded
};

/// Exactly-once matching and shape proof, from headers alone: every tensor of the checkpoint is claimed by one row or
/// is on the ignore list, every required one is there, every shape is the expected one. Error(input) names the tensors
/// otherwise.
Claims claim_tensors(const ModelSpec& spec, const Checkpoint& checkpoint, const Log& log);

}  // namespace tpinfer
