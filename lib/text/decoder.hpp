#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/place.hpp"

namespace tpinfer {

/// Takes tokens in order, each as one or more fragments (whole characters) and an end.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void text(std::string_view fragment) = 0;
  virtual void end_token() = 0;
  /// No token comes after this.
  virtual void finish() = 0;
};

/// One step of the "decoder" of a tokenizer.json; immutable.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  /// The working state for one stream of tokens, which hands its result on to `next` as soon as no later token can
  /// change it.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next) const = 0;
};

/// Reads the "decoder" of a tokenizer.json (absent: tokens joined by spaces) as steps in order; Error(input) for an
/// unknown type.
std::vector<std::shared_ptr<const DecoderStep>> read_decoder(const std::optional<Place>& place);

/// Runs tokens through decoder steps, as they come.
class DecoderStream {
 public:
  explicit DecoderStream(const std::vector<std::shared_ptr<const DecoderStep>>& steps);

  void push(std::string_view token);
  void finish();
  /// The text since the last call that is final.
  std::string take() { return std::exchange(end_->text_, {}); }

 private:
  struct End final : TokenSink {
    void text(std::string_view fragment) override { text_ += fragment; }
    void end_token() override {}
    void finish() override {}
    std::string text_;
  };

  std::unique_ptr<End> end_ = std::make_unique<End>();
  std::vector<std::unique_ptr<TokenSink>> sinks_;  // last step first; each holds a reference to the one before
};

}  // namespace tpinfer
