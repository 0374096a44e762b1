#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_spec.hpp"
#include "shard/cuts.hpp"

namespace tpinfer {

/// What one rank has of the things that are divided: everything it holds follows from these four ranges.
struct RankShare {
  int rank = 0;
  int ranks = 1;
  Range query_heads = {};
  Range kv_heads = {};
  Range channels = {};         ///< of the dense MLP
  Range expert_channels = {};  ///< inside each expert
  Range shared_channels = {};  ///< of the shared expert
  Range vocab = {};            ///< rows of embedding and head
};

/// Error(does_not_fit) when there are more ranks than query heads.
RankShare rank_share(const ModelSpec& spec, int rank, int ranks);

/// Positions [from, from + count) of the stored tensor's axis become [to, to + count) of the rank's own part.
struct Piece {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  bool operator==(const Piece&) const = default;
};

/// One rank's part of one stored tensor.
struct RoleSlice {
  int axis = 0;  ///< the stored axis that is cut, of the matrix or vector (a stacked tensor has one more in front)
  std::vector<Piece> pieces;  ///< in order of `to`; empty: nothing
  std::int64_t extent() const noexcept { return pieces.empty() ? 0 : pieces.back().to + pieces.back().count; }
};

enum class Split : std::uint8_t { replicated, rows, columns, fused_rows };
std::string_view split_name(Split split) noexcept;

/// Axis of the stored tensor that `slice` cuts.
int stored_axis(const RoleSlice& slice, Fusion fusion) noexcept;

/// How a tensor of this role is divided, in a word.
Split role_split(Role role, bool bias, Fusion fusion) noexcept;

/// The same for people: "query heads", "columns of the channels", "whole on every rank".
std::string_view split_words(Role role, bool bias, Fusion fusion) noexcept;

/// True when several ranks may hold the same part: replicated tensors, and K and V beyond the number of KV heads.
bool may_overlap(Role role, bool bias) noexcept;

/// The one place that knows axes: which part of `tensor` belongs to this share.
RoleSlice role_slice(const ModelSpec& spec, const ExpectedTensor& tensor, const RankShare& share);

}  // namespace tpinfer
