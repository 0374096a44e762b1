#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.hpp"
#include "shard/common_parts.hpp"

namespace tpinfer {

/// Checksums of what a rank holds alike with others, taken from the stored bytes as they are copied. A checksum is a
/// sum over rows, so that pieces may come in any order and size.
class CommonChecksums {
 public:
  CommonChecksums(const ModelSpec& spec, const ShardingPlan& plan, int rank);

  /// Adds a block of the tensor's matrix number `matrix`, whose first element stands at (row, col) there; whole pieces
  /// of this rank's slice, or whole rows of them.
  void add(std::size_t tensor, std::int64_t matrix, std::int64_t row, std::int64_t col, const StoredMatrix& block);
  /// One for each of this rank's parts of common_parts(), in their order.
  std::vector<std::uint64_t> take() const;

 private:
  bool is_mine(const CommonPart& part) const;

  int rank_;
  std::vector<CommonPart> parts_;
  std::vector<std::uint64_t> sums_;  ///< [parts]
};

}  // namespace tpinfer
