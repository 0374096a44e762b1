#include "runtime/foresight.hpp"

namespace tpinfer {

void Foresight::clear() {
  step.clear();
  step.part = StepPart::early;
  rows.clear();
  ready = false;
}

bool Foresight::complete(Step& made, std::vector<LogitRow>& made_rows) {
  if (!ready || made.rows() < fewest || made_rows.size() != made.tokens.size() || !made.block_copies.empty())
    return false;
  tokens_.assign(rows.size(), -1);
  std::size_t at = 0;
  for (std::size_t r = 0; r < made_rows.size(); ++r, ++at) {
    while (at < rows.size() && rows[at].sequence != made_rows[r].sequence) ++at;
    if (at == rows.size() || step.positions[at] != made.positions[r] || step.slots[at] != made.slots[r]) return false;
    tokens_[at] = made.tokens[r];
  }
  made.clear();
  made.part = StepPart::late;
  made.tokens = tokens_;
  made_rows = rows;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (tokens_[r] < 0) made_rows[r].sequence = -1;
  return true;
}

}  // namespace tpinfer
