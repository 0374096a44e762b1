#include "runtime/common_checksums.hpp"

#include <algorithm>

#include "core/bytes.hpp"

namespace tpinfer {

CommonChecksums::CommonChecksums(const ModelSpec& spec, const ShardingPlan& plan, int rank)
    : rank_(rank), parts_(common_parts(spec, plan)), sums_(parts_.size(), 0) {}

bool CommonChecksums::is_mine(const CommonPart& part) const { return std::ranges::binary_search(part.ranks, rank_); }

void CommonChecksums::add(std::size_t tensor, std::int64_t matrix, std::int64_t row, std::int64_t col,
                          const StoredMatrix& block) {
  const auto parts = std::ranges::equal_range(parts_, static_cast<std::uint32_t>(tensor), {}, &CommonPart::tensor);
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    if (!is_mine(*part)) continue;
    Range rows{row, row + block.rows};
    Range cols{col, col + block.cols};
    Range& cut = part->axis == 0 ? rows : cols;
    cut = {std::max(cut.begin, part->range.begin), std::min(cut.end, part->range.end)};
    if (cut.count() <= 0) continue;
    const auto width = static_cast<std::size_t>(cols.count() * block.col_stride);
    std::uint64_t& sum = sums_[static_cast<std::size_t>(part - parts_.begin())];
    for (std::int64_t r = rows.begin; r < rows.end; ++r) {
      const std::byte* data = block.data + (r - row) * block.row_stride + (cols.begin - col) * block.col_stride;
      // the place goes in as the seed: rows that change places are another sum
      sum += hash_bytes({data, width}, hash_bytes(std::as_bytes(std::span(&r, 1)), static_cast<std::uint64_t>(matrix)));
    }
  }
}

std::vector<std::uint64_t> CommonChecksums::take() const {
  std::vector<std::uint64_t> mine;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (is_mine(parts_[i])) mine.push_back(sums_[i]);
  return mine;
}

}  // namespace tpinfer
