#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/json.hpp"
#include "core/tokenizer_class.hpp"

namespace tpinfer {

/// A tokenizer in the form of a tokenizer.json, wherever it came from.
struct TokenizerDocument {
  Json json;
  std::string name;                     ///< of the file or files, for complaints
  std::optional<std::string> bos, eos;  ///< the tokens, not checked
};

/// tokenizer.json where the folder has one; otherwise what Hugging Face's converters make of vocab.json + merges.txt or
/// of a SentencePiece tokenizer.model. Error(input) where there is none of them, or the folder's class is unknown.
TokenizerDocument read_tokenizer_document(const std::filesystem::path& folder, std::span<const TokenizerClass> classes);

/// Whether the folder holds any of these files.
bool has_tokenizer_files(const std::filesystem::path& folder);

}  // namespace tpinfer
