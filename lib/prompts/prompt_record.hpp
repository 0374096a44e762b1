#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/sampling.hpp"

namespace tpinfer {

/// One prompt of a job, before it is encoded.
struct PromptRecord {
  std::string id;     ///< of the record, else LINE, or FILE:LINE where there are several files
  std::string place;  ///< FILE:LINE, for messages
  std::string text;   ///< the prompt; of a conversation, what the chat template makes of it
  std::optional<std::vector<std::int32_t>> token_ids;  ///< given instead of a text
  bool is_chat = false;                                ///< the text holds its special tokens already
  SamplingRequest params;
  std::string meta;   ///< JSON of "meta", or empty
  std::string error;  ///< why this record cannot be run; the row fails
};

}  // namespace tpinfer
