#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

/// XXH3 over the stored bytes of a tensor that every rank holds whole.
struct ReplicatedChecksum {
  std::string name;
  std::uint64_t hash = 0;
};

struct LoadReport {
  std::vector<LoadedBytes> by_class;  ///< in order of plan.role_names()
  std::uint64_t tensors = 0;          ///< of which this rank holds something
  double seconds = 0;
  std::vector<ReplicatedChecksum> replicated;  ///< in the order they were loaded, the same on every rank
};

/// Called after each tensor with the stored bytes copied so far and in all.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Bytes of a rank's buffer of the exchange: rows of row-parallel tensors pass through it.
inline constexpr std::size_t kExchangeBytes = std::size_t{8} << 20;

/// Maps the files, copies this rank's slices into `weights` and lets the mapped pages go, tensor by tensor.
/// Error(input) when a file is no longer the one that was planned, Error(internal) when this rank's own slices differ
/// from the plan's.
///
/// With `exchange` (null: without) the ranks of a host share the reading of row-parallel tensors, whose slices are
/// strided: each reads some whole rows and all take their columns from shared memory, so that a page of the file is
/// looked at by one rank only. When another rank fails meanwhile, this one returns early; the caller's agreement tells
/// why.
///
/// With `verify_finite` every weight is looked at: Error(input) with the tensor's name and the place of a NaN or
/// infinity.
LoadReport load_weights(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank,
                        RankWeights& weights, HostExchange* exchange, const LoadProgress& progress,
                        bool verify_finite = false);

}  // namespace tpinfer
