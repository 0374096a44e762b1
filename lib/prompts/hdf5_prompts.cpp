#include "prompts/hdf5_prompts.hpp"

#include <limits>

#include "core/error.hpp"
#include "text/utf8.hpp"

namespace tpinfer {

bool Hdf5Prompts::next(RawPrompt& raw) {
  raw = {};
  if (used_ == block_.size()) {
    block_ = table_.next_rows();
    used_ = 0;
    if (block_.empty()) return false;
  }
  PromptTableRow& row = block_[used_++];
  raw.number = ++number_;
  raw.text = std::move(row.text);
  raw.id = std::move(row.id);
  raw.token_ids = std::move(row.token_ids);
  raw.has_ids = table_.has_token_ids();
  raw.fault = std::move(row.fault);
  return true;
}

void Hdf5Prompts::read(RawPrompt&& raw, const RecordTerms&, PromptRecord& record) const {
  if (!is_valid_utf8(raw.id)) fail_input("{}: the id is not valid UTF-8", record.place);
  if (!raw.id.empty()) record.id = std::move(raw.id);
  if (!raw.has_ids) {
    if (!is_valid_utf8(raw.text)) fail_input("{}: the prompt is not valid UTF-8", record.place);
    record.text = std::move(raw.text);
    return;
  }
  std::vector<std::int32_t> ids;
  ids.reserve(raw.token_ids.size());
  for (const std::int64_t id : raw.token_ids) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
      fail_input("{}: token_ids holds {}, which is no token id", record.place, id);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  record.token_ids = std::move(ids);
}

}  // namespace tpinfer
