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

std::uint64_t key_of(StepSize size) {
  return static_cast<std::uint64_t>(size.rows) << 32 | static_cast<std::uint32_t>(size.table_width);
}

}  // namespace

std::int64_t DecodeGraphs::padded_rows(std::int64_t rows) noexcept {
  if (rows <= 2) return rows;
  if (rows <= 4) return 4;
  return rounded_up(rows, rows <= 64 ? 8 : rows <= 256 ? 16 : 64);
}

std::optional<StepSize> DecodeGraphs::size_of(const Step& step) const {
  if (!backend_.has_graphs() || !comm_.capturable() || !is_plain_decode(step) || step.rows() > most_rows())
    return std::nullopt;
  const std::int64_t most_width = rounded_up(limits_.max_model_len, block_size_) / block_size_;
  const auto doubled = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(step.table_width)));
  return StepSize{.rows = std::min(padded_rows(step.rows()), most_rows()),
                  .table_width = std::max<std::int64_t>(step.table_width, std::min(doubled, most_width))};
}

std::int64_t DecodeGraphs::fewest_rows(std::int64_t rows) const noexcept {
  const std::int64_t padded = std::min(padded_rows(rows), most_rows());
  while (rows > 1 && std::min(padded_rows(rows - 1), most_rows()) == padded) --rows;
  return rows;
}

void DecodeGraphs::run(StepSize size, const std::function<void()>& enqueue) {
  const std::uint64_t key = key_of(size);
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
