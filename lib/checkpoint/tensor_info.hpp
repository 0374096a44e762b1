#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace tpinfer {

/// One tensor of a checkpoint, as its safetensors header tells it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  ///< empty for a scalar; a dimension may be 0
  std::uint32_t file = 0;           ///< index into Checkpoint::files()
  std::uint64_t offset = 0;         ///< of the first byte, absolute in the file; need not be aligned to the type
  std::uint64_t bytes = 0;          ///< = product of shape * dtype_size(dtype)
};

}  // namespace tpinfer
