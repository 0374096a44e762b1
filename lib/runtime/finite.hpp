#pragma once

#include <cstddef>

#include "core/tensor.hpp"

namespace tpinfer {

/// The first element of `part` (row by row; adjacent columns, a weight type) that is NaN or infinite; null: all are
/// finite.
const std::byte* find_non_finite(const StoredMatrix& part);

}  // namespace tpinfer
