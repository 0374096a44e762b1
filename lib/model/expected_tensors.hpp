#pragma once

#include <vector>

#include "model/model_spec.hpp"

namespace tpinfer {

/// Every tensor of the family's table for the sizes of `spec`, with its whole stored shape; rows of both expert
/// layouts.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec);

/// Shape of one matrix or vector of this role, as stored: [output features, input features] or [features].
std::vector<std::int64_t> stored_shape(Role role, const ModelSpec& spec);

}  // namespace tpinfer
