#pragma once

#include <deque>

#include "output/prompt_table.hpp"
#include "prompts/prompt_stream.hpp"

namespace tpinfer {

/// An HDF5 file with the root datasets id and prompt, or token_ids and token_offsets; a prompt a row.
class Hdf5Prompts final : public PromptFile {
 public:
  Hdf5Prompts(const std::string& path, const PromptsJob& job)
      : PromptFile(path), table_(path, job.id_field, job.text_field) {}
  bool next(RawPrompt& raw) override;
  void read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const override;

 private:
  PromptTable table_;
  std::vector<PromptTableRow> block_;
  std::size_t used_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace tpinfer
