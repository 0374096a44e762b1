#include "runtime/decode_graphs.hpp"

#include <algorithm>
#include <bit>

namespace tpinfer {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

/// One row for each sequence, and the logits of all of them wanted.
bool is_plain_decode(const Step& step) {
  return step.rows() > 0 && step.rows() == step.sequences() && step.logit_rows.size() == step.tokens.size();
}

std::uint64_t key_of(const Step& padded) {
  return static_cast<std::uint64_t>(padded.rows()) << 32 | static_cast<std::uint32_t>(padded.table_width);
}

}  // namespace

std::int64_t DecodeGraphs::padded_rows(std::int64_t rows) noexcept {
  if (rows <= 2) return rows;
  if (rows <= 4) return 4;
  return rounded_up(rows, rows <= 64 ? 8 : rows <= 256 ? 16 : 64);
}

const Step* DecodeGraphs::fit(const Step& step) {
  if (!backend_.has_graphs() || !comm_.capturable() || !is_plain_decode(step) || step.rows() > limits_.logit_rows)
    return nullptr;
  const std::int64_t most_rows = std::min({limits_.max_rows, limits_.max_sequences, limits_.logit_rows});
  const std::int64_t rows = std::min(padded_rows(step.rows()), most_rows);
  const std::int64_t most_width = rounded_up(limits_.max_model_len, block_size_) / block_size_;
  const auto doubled = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(step.table_width)));
  const std::int64_t width = std::max<std::int64_t>(step.table_width, std::min(doubled, most_width));
  if (rows < step.rows()) return nullptr;
  padded_ = step;
  pad(rows, width);
  return &padded_;
}

void DecodeGraphs::pad(std::int64_t rows, std::int64_t width) {
  const auto real = static_cast<std::size_t>(padded_.rows());
  const auto all = static_cast<std::size_t>(rows);
  const auto old_width = static_cast<std::size_t>(padded_.table_width);
  const auto new_width = static_cast<std::size_t>(width);
  std::vector<std::int32_t> table(all * new_width, -1);
  for (std::size_t s = 0; s < real; ++s)
    std::copy_n(padded_.block_table.begin() + static_cast<std::ptrdiff_t>(s * old_width), old_width,
                table.begin() + static_cast<std::ptrdiff_t>(s * new_width));
  padded_.block_table = std::move(table);
  padded_.table_width = static_cast<std::int32_t>(width);
  padded_.tokens.resize(all, 0);
  padded_.positions.resize(all, 0);
  padded_.slots.resize(all, -1);
  padded_.row_begin.resize(all + 1, static_cast<std::int32_t>(real));
  padded_.logit_rows.resize(all, 0);
}

void DecodeGraphs::run(const std::function<void()>& enqueue) {
  const std::uint64_t key = key_of(padded_);
  if (seen_.insert(key).second) return enqueue();
  if (!backend_.run_graph(key)) {
    static_cast<void>(comm_.take_captured());
    backend_.begin_graph();
    enqueue();
    backend_.end_graph(key);
    collectives_[key] = comm_.take_captured();
  }
  ++runs_;
  comm_.launched(collectives_[key]);
}

}  // namespace tpinfer
