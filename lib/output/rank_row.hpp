#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

/// A rank's row as bytes, for sending to rank 0.
std::vector<std::byte> encode(const RankRow& row);
/// The row that encode() wrote; Error(internal) when the bytes are not exactly one row.
RankRow decode_rank_row(std::span<const std::byte> bytes);

}  // namespace tpinfer
