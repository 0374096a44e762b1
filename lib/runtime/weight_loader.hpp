#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/weight_file.hpp"
#include "comm/host_exchange.hpp"
#include "runtime/rank_weights.hpp"
#include "shard/sharding_plan.hpp"

namespace tpinfer {

/// Bytes of one class of tensors (a plan role), as this rank handled them.
struct LoadedBytes {
  std::uint64_t touched = 0;  ///< page-rounded union of the mapped runs that were copied from
  std::uint64_t read = 0;     ///< stored bytes copied
  std::uint64_t owned = 0;    ///< device memory, padding included (a fused matrix is shared out by rows)
};

struct LoadReport {
  std::vector<LoadedBytes> by_class;  ///< in order of plan.role_names()
  std::uint64_t tensors = 0;          ///< of which this rank holds something
  double seconds = 0;
  std::vector<std::uint64_t> common;  ///< checksums of this rank's parts of common_parts(), in their order
};

struct LoadOptions {
  ReadMode mode = ReadMode::automatic;
  bool verify_finite = false;     ///< look at every weight
  bool on_planning_host = false;  ///< the files' times of change are those that the plan tells
};

/// Called after each tensor with the stored bytes copied so far and in all.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Bytes of a rank's buffer of the exchange: rows of row-parallel tensors pass through it.
inline constexpr std::size_t kExchangeBytes = std::size_t{8} << 20;

/// Copies this rank's slices of the files into `weights`, tensor by tensor; no more than one tensor is mapped at a
/// time. Error(input) when a file is not the one that was planned, or is cut or changed meanwhile; Error(internal) when
/// this rank's own slices differ from the plan's.
///
/// With `exchange` (null: without) the ranks of a host share the reading of row-parallel tensors, whose slices are
/// strided: each reads some whole rows and all take their columns from shared memory, so that a page of the file is
/// looked at by one rank only. When another rank fails meanwhile, this one returns early; the caller's agreement tells
/// why.
///
/// With `verify_finite`: Error(input) with the tensor's name and the place of a NaN or infinity.
LoadReport load_weights(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank,
                        RankWeights& weights, HostExchange* exchange, const LoadProgress& progress,
                        const LoadOptions& options = {});

}  // namespace tpinfer
