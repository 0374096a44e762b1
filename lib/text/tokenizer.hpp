#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer_class.hpp"

namespace tpinfer {

class DecoderStream;

/// Text to token ids and back, as tokenizer.json says and Hugging Face's `tokenizers` library does. Immutable: cheap to
/// copy, and several threads may use one at the same time.
class Tokenizer {
 public:
  /// Reads the tokenizer of a model folder: tokenizer.json, or where there is none vocab.json + merges.txt or a
  /// SentencePiece tokenizer.model, which `classes` says how to take. tokenizer.json has the last word on ids;
  /// add_bos_token and its like in tokenizer_config.json count where it is absent. Error(input), with file and place,
  /// for anything that is missing, contradictory or not supported.
  static Tokenizer load(const std::filesystem::path& folder, std::span<const TokenizerClass> classes = {});

  /// Whether the folder holds files that load() reads a tokenizer from.
  static bool is_in(const std::filesystem::path& folder);

  /// The ids of `text`, with the special tokens that the tokenizer puts round it if asked. Special tokens written in
  /// the text are recognised in either case. Error(input) when `text` is not valid UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const;

  /// The text of `ids`: valid UTF-8, with U+FFFD for bytes that are not. An id that has no token is left out.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const;

  /// The highest id + 1, added tokens included. Some ids below may have no token.
  std::int64_t vocab_size() const;
  bool has_token(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  /// The token as the file spells it (byte-level tokens in their alphabet); empty when there is none. Valid as long as
  /// a copy of this tokenizer lives.
  std::string_view id_to_token(std::int32_t id) const;
  std::optional<std::int32_t> token_to_id(std::string_view token) const;

  std::optional<std::int32_t> bos_token_id() const;
  std::optional<std::int32_t> eos_token_id() const;

 private:
  friend class IncrementalDecoder;
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

  std::shared_ptr<const Parts> parts_;
};

/// Decodes ids one by one. What push() and finish() return, put together, is what decode() makes of all the ids; no
/// character is ever split, and nothing is handed out that a later id could still change.
class IncrementalDecoder {
 public:
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  ~IncrementalDecoder();
  IncrementalDecoder(IncrementalDecoder&&) noexcept;
  IncrementalDecoder& operator=(IncrementalDecoder&&) noexcept;

  /// The text that has become final with this id, perhaps none.
  std::string push(std::int32_t id);
  /// What was held back. No push() after this.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<DecoderStream> stream_;
};

}  // namespace tpinfer
