#pragma once

#include <array>
#include <string_view>

namespace tpinfer {

/// What the vocabulary of a folder without tokenizer.json is written in.
enum class TokenizerFiles { vocab_and_merges, sentencepiece };

/// What a class name in tokenizer_config.json means for a folder without tokenizer.json: the parts of Hugging Face's
/// conversion to tokenizer.json in which classes differ.
struct TokenizerClass {
  std::string_view name;        ///< as in tokenizer_config.json, without "Fast" at the end
  std::string_view model_type;  ///< of config.json; empty: any that has no row of its own
  TokenizerFiles files = TokenizerFiles::vocab_and_merges;
  bool digits_apart = false;    ///< each digit is a piece of its own before the byte-level pattern
  bool nfc_words = false;       ///< NFC, then a pattern that keeps line ends and single digits apart
  bool word_mark_first = true;  ///< SentencePiece: a word mark goes in front of the text
  bool adds_bos = false;        ///< the default of add_bos_token
  std::string_view bos = {}, eos = {}, unk = {}, pad = {};  ///< the default special tokens; empty: none
  std::array<std::string_view, 2> special_pieces = {};      ///< user-defined pieces that are special all the same
};

}  // namespace tpinfer
