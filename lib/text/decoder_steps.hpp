#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "text/decoder.hpp"
#include "text/pattern.hpp"

namespace tpinfer {

// The steps that a decoder is made of; what each does to a token is Hugging Face's definition.

/// Each match of the pattern becomes `content`.
class ReplaceDecoder final : public DecoderStep {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;

 private:
  Pattern pattern_;
  std::string content_;
};

/// A run of tokens <0xNN> becomes the text of its bytes, or one U+FFFD for each byte when they are not valid as a
/// whole.
class ByteFallbackDecoder final : public DecoderStep {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;
};

/// All tokens become one.
class FuseDecoder final : public DecoderStep {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;
};

/// Takes up to `first` times `content` from the front of each token and up to `last` times from its end.
class StripDecoder final : public DecoderStep {
 public:
  StripDecoder(std::string content, std::size_t first, std::size_t last)
      : content_(std::move(content)), first_(first), last_(last) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;

 private:
  std::string content_;  // one character
  std::size_t first_, last_;
};

/// `replacement` becomes a space; in the first token it goes away when one was prepended.
class MetaspaceDecoder final : public DecoderStep {
 public:
  MetaspaceDecoder(std::string replacement, bool prepended)
      : replacement_(std::move(replacement)), prepended_(prepended) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;

 private:
  std::string replacement_;
  bool prepended_;
};

/// The characters of all tokens become bytes (byte_alphabet.hpp), and these text, with U+FFFD for what is not valid. A
/// token with any other character counts as its own bytes.
class ByteLevelDecoder final : public DecoderStep {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;
};

/// A suffix at the end of words becomes a space, and nothing in the last token.
class BpeDecoder final : public DecoderStep {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;

 private:
  std::string suffix_;
};

/// No decoder: a space between tokens.
class JoinDecoder final : public DecoderStep {
 public:
  std::unique_ptr<TokenSink> start(TokenSink& next) const override;
};

}  // namespace tpinfer
