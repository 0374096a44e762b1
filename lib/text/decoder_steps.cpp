#include "text/decoder_steps.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/byte_alphabet.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

/// A sink that hands what it has on to the next one.
class Stage : public TokenSink {
 public:
  explicit Stage(TokenSink& next) : next_(next) {}
  void finish() override { next_.finish(); }

 protected:
  TokenSink& next_;
};

/// A stage that must see a token as a whole.
class WholeTokenStage : public Stage {
 public:
  using Stage::Stage;
  void text(std::string_view fragment) final { token_ += fragment; }
  void end_token() final {
    take(token_);
    token_.clear();
  }

 protected:
  virtual void take(const std::string& token) = 0;
  void hand_on(std::string_view token) {
    next_.text(token);
    next_.end_token();
  }

 private:
  std::string token_;
};

class ReplaceStage final : public WholeTokenStage {
 public:
  ReplaceStage(TokenSink& next, const Pattern& pattern, const std::string& content)
      : WholeTokenStage(next), pattern_(pattern), content_(content) {}

 protected:
  void take(const std::string& token) override { hand_on(replace_matches(pattern_, token, content_)); }

 private:
  const Pattern& pattern_;
  const std::string& content_;
};

// The same for a literal, which can go on as soon as it is no longer the beginning of a match.
class ReplaceLiteralStage final : public Stage {
 public:
  ReplaceLiteralStage(TokenSink& next, const std::string& literal, const std::string& content)
      : Stage(next), literal_(literal), content_(content) {}
  void text(std::string_view fragment) override {
    held_ += fragment;
    std::size_t from = 0;
    for (std::size_t at = held_.find(literal_); at != std::string::npos; at = held_.find(literal_, from)) {
      next_.text(std::string_view(held_).substr(from, at - from));
      next_.text(content_);
      from = at + literal_.size();
    }
    std::size_t keep = std::min(held_.size() - from, literal_.size() - 1);
    while (!std::string_view(held_).ends_with(std::string_view(literal_).substr(0, keep))) --keep;
    next_.text(std::string_view(held_).substr(from, held_.size() - keep - from));
    held_.erase(0, held_.size() - keep);
  }
  void end_token() override {
    next_.text(held_);
    held_.clear();
    next_.end_token();
  }

 private:
  const std::string& literal_;
  const std::string& content_;
  std::string held_;
};

// The byte that "<0xNN>" names. The reference reads the digits as Rust reads a number: "+A" and lower case count.
std::optional<char> named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const char* begin = token.data() + 3;
  const char* const end = token.data() + 5;
  if (*begin == '+') ++begin;
  unsigned char byte = 0;
  const auto [stop, error] = std::from_chars(begin, end, byte, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(byte);
}

class ByteFallbackStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    end_run();
    next_.finish();
  }

 protected:
  void take(const std::string& token) override {
    if (const auto byte = named_byte(token)) {
      run_ += *byte;
      return;
    }
    end_run();
    hand_on(token);
  }

 private:
  void end_run() {
    if (run_.empty()) return;
    if (is_valid_utf8(run_)) {
      hand_on(run_);
    } else {
      for (std::size_t i = 0; i < run_.size(); ++i) hand_on("\xEF\xBF\xBD");
    }
    run_.clear();
  }
  std::string run_;
};

class FuseStage final : public Stage {
 public:
  using Stage::Stage;
  void text(std::string_view fragment) override { next_.text(fragment); }
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }
};

class StripStage final : public Stage {
 public:
  StripStage(TokenSink& next, const std::string& content, std::size_t first, std::size_t last)
      : Stage(next), content_(content), first_(first), last_(last) {}
  void text(std::string_view fragment) override {
    while (taken_ < first_ && fragment.starts_with(content_)) {
      fragment.remove_prefix(content_.size());
      ++taken_;
    }
    if (fragment.empty()) return;
    taken_ = first_;
    held_ += fragment;
    std::size_t keep = 0;
    for (std::size_t i = 0; i < last_ && std::string_view(held_).substr(0, held_.size() - keep).ends_with(content_);
         ++i)
      keep += content_.size();
    next_.text(std::string_view(held_).substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
  }
  void end_token() override {
    held_.clear();
    taken_ = 0;
    next_.end_token();
  }

 private:
  const std::string& content_;
  std::size_t first_, last_;
  std::size_t taken_ = 0;
  std::string held_;  // contents at the end, which go away if the token ends here
};

class MetaspaceStage final : public Stage {
 public:
  MetaspaceStage(TokenSink& next, const std::string& replacement, bool prepended)
      : Stage(next), replacement_(replacement), drops_(prepended) {}
  void text(std::string_view fragment) override {
    next_.text(replace_matches(Pattern(replacement_), fragment, drops_ ? "" : " "));
  }
  void end_token() override {
    drops_ = false;
    next_.end_token();
  }

 private:
  const std::string& replacement_;
  bool drops_;
};

class ByteLevelStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  void finish() override {
    std::string rest;
    text_.finish(rest);
    hand_on(rest);
    next_.finish();
  }

 protected:
  void take(const std::string& token) override {
    std::string bytes;
    for (std::size_t at = 0; at < token.size();) {
      const CodePoint c = code_point_at(token, at);
      const auto byte = byte_of_character(c.value);
      if (!byte) {
        bytes = token;
        break;
      }
      bytes += static_cast<char>(*byte);
      at += c.size;
    }
    std::string out;
    text_.push(bytes, out);
    next_.text(out);
  }

 private:
  LossyUtf8 text_;
};

class BpeStage final : public WholeTokenStage {
 public:
  BpeStage(TokenSink& next, const std::string& suffix) : WholeTokenStage(next), suffix_(suffix) {}
  void finish() override {
    release("");
    next_.finish();
  }

 protected:
  void take(const std::string& token) override {
    release(" ");
    previous_ = token;
  }

 private:
  void release(std::string_view content) {
    if (previous_) hand_on(suffix_.empty() ? *previous_ : replace_matches(Pattern(suffix_), *previous_, content));
    previous_.reset();
  }
  const std::string& suffix_;
  std::optional<std::string> previous_;
};

class JoinStage final : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;

 protected:
  void take(const std::string& token) override {
    if (!first_) next_.text(" ");
    hand_on(token);
    first_ = false;
  }

 private:
  bool first_ = true;
};

}  // namespace

std::unique_ptr<TokenSink> ReplaceDecoder::start(TokenSink& next) const {
  if (const auto* literal = std::get_if<std::string>(&pattern_))
    return std::make_unique<ReplaceLiteralStage>(next, *literal, content_);
  return std::make_unique<ReplaceStage>(next, pattern_, content_);
}
std::unique_ptr<TokenSink> ByteFallbackDecoder::start(TokenSink& next) const {
  return std::make_unique<ByteFallbackStage>(next);
}
std::unique_ptr<TokenSink> FuseDecoder::start(TokenSink& next) const { return std::make_unique<FuseStage>(next); }
std::unique_ptr<TokenSink> StripDecoder::start(TokenSink& next) const {
  return std::make_unique<StripStage>(next, content_, first_, last_);
}
std::unique_ptr<TokenSink> MetaspaceDecoder::start(TokenSink& next) const {
  return std::make_unique<MetaspaceStage>(next, replacement_, prepended_);
}
std::unique_ptr<TokenSink> ByteLevelDecoder::start(TokenSink& next) const {
  return std::make_unique<ByteLevelStage>(next);
}
std::unique_ptr<TokenSink> BpeDecoder::start(TokenSink& next) const {
  return std::make_unique<BpeStage>(next, suffix_);
}
std::unique_ptr<TokenSink> JoinDecoder::start(TokenSink& next) const { return std::make_unique<JoinStage>(next); }

}  // namespace tpinfer
