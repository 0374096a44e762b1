#pragma once

#include <optional>
#include <string>

namespace tpinfer {

struct TokenizeOptions {
  std::string folder;
  std::optional<std::string> text;
  std::optional<std::string> ids;    ///< "1,2,3"
  std::optional<std::string> jsonl;  ///< a file, or "-" for standard input
  bool no_special = false;           ///< encoding adds no special tokens, decoding leaves them out
};

/// `tpinfer tokenize`: {"ids": [...]} for a text and {"text": "..."} for ids, a line each. Exactly one of text, ids and
/// jsonl is set. Needs the tokenizer's files alone. -> exit code.
int run_tokenize(const TokenizeOptions& options);

}  // namespace tpinfer
