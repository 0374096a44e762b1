#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shard/claim.hpp"
#include "shard/role_rules.hpp"

namespace tpinfer {

struct PlanFile {
  std::string path;
  std::uint64_t bytes = 0;
  // whether it is still the same file, when it is loaded
  std::uint64_t header_bytes = 0;
  std::uint64_t header_hash = 0;
  std::int64_t modified = 0;  ///< ns since 1970, where the plan was made
};

/// A loaded tensor: where it lies and how it is divided.
struct PlannedTensor {
  std::string name;
  std::string role;  ///< role_name()
  Split split = Split::replicated;
  DType dtype = DType::float32;  ///< as stored
  std::vector<std::int64_t> shape;
  std::uint32_t expected = 0;  ///< index in ModelSpec::tensors
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  ///< of the first byte in the file
};

/// What one rank holds of one tensor: ranges of one axis in ascending order, adjacent ones merged. Empty: nothing.
struct PlannedSlice {
  std::int32_t axis = 0;
  std::vector<Range> ranges;
  std::int64_t extent() const noexcept;
};

struct PlannedRank {
  RankShare share;
  std::uint64_t weights_bytes = 0;                     ///< in the compute type, without padding
  std::uint64_t file_bytes = 0;                        ///< as stored
  std::map<std::string, std::uint64_t> bytes_by_role;  ///< in the compute type
};

/// Which rank holds which part of which tensor. A pure function of (config, headers, rank count, compute type); rank 0
/// makes it, all others decode it.
struct ShardingPlan {
  int ranks = 1;
  DType compute_dtype = DType::float32;
  DType stored_dtype = DType::float32;
  std::uint64_t parameters = 0;
  std::vector<PlanFile> files = {};
  std::vector<PlannedTensor> tensors = {};             ///< sorted by name
  std::vector<std::vector<PlannedSlice>> slices = {};  ///< [tensors][ranks]
  std::vector<PlannedRank> per_rank = {};
  std::vector<std::string> ignored = {};  ///< tensors of the checkpoint that nobody loads

  /// Role names in use, in alphabetical order: the classes of weight statistics.
  std::vector<std::string> role_names() const;
};

/// Bytes of one rank's slice of a tensor as stored.
std::uint64_t slice_bytes(const PlannedTensor& tensor, const PlannedSlice& slice) noexcept;

/// Makes the plan and proves it: every row or column of every tensor is held, more than once only where a rule says so.
/// Error(does_not_fit) when there are more ranks than query heads.
ShardingPlan make_sharding_plan(const ModelSpec& spec, const Checkpoint& checkpoint, const Claims& claims, int ranks,
                                DType compute_dtype);

/// Throws Error(internal) naming the tensor when the slices do not cover it exactly.
void prove_coverage(const ModelSpec& spec, const ShardingPlan& plan);

std::vector<std::byte> encode(const ShardingPlan& plan);
/// `spec` must be the model of the plan (expected indices point into it).
ShardingPlan decode_plan(std::span<const std::byte> bytes);
/// 16 hexadecimal digits over the encoded plan.
std::string plan_digest(std::span<const std::byte> encoded);

}  // namespace tpinfer
