#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/tokenizer_class.hpp"

namespace tpinfer {

/// Reads a JSON file of a tokenizer's folder; a pointer of Git LFS is told as such.
Json read_tokenizer_file(const std::filesystem::path& file);

/// What the small files of a folder say about its special tokens: tokenizer_config.json, then special_tokens_map.json.
struct SpecialTokenNames {
  std::optional<std::string> bos, eos;
};
SpecialTokenNames read_special_token_names(const std::filesystem::path& folder);

/// A token to be put into "added_tokens" of a tokenizer.json.
struct TokenToAdd {
  std::string content;
  std::optional<std::int32_t> id = std::nullopt;  ///< nothing: the vocabulary's id, or the next free one
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = true;
  bool named_only = false;     ///< by a string without flags: says nothing new about a piece that is looked for anyway
  bool only_if_known = false;  ///< a default of the class: left out when the vocabulary lacks it
};

/// What tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json say about a folder without
/// tokenizer.json, as Hugging Face reads them.
struct TokenizerSettings {
  TokenizerClass kind;
  std::vector<TokenToAdd> added;  ///< each content once; those with an id first, in order of their ids
  std::optional<std::string> bos, eos, unk, pad;
  bool add_bos = false, add_eos = false;
  bool add_prefix_space = false;  ///< as the class means it where the files say nothing
  bool legacy = true;             ///< the word mark goes in front of each part between special tokens, not of the first
};

/// Error(input) where neither the class nor the model type is one of `classes`, or a value has a wrong type.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder, std::span<const TokenizerClass> classes);

}  // namespace tpinfer
