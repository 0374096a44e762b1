#include "text/normalizer.hpp"

#include "text/utf8.hpp"

namespace tpinfer {
namespace {

// The last character before byte `end` of valid UTF-8.
CodePoint code_point_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return code_point_at(text, begin);
}

struct Rewrite {
  std::string text;

  std::string operator()(NormalForm form) const { return normal_form(text, form); }
  std::string operator()(Lowercase) const { return lower_case(text); }
  std::string operator()(StripAccents) const {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint next = code_point_at(text, at);
      if (!is_accent(next.value)) out.append(text, at, next.size);
      at += next.size;
    }
    return out;
  }
  std::string operator()(const Charsmap& step) const { return step.apply(text); }
  std::string operator()(const Prepend& step) const { return text.empty() ? text : step.content + text; }
  std::string operator()(const Replace& step) const { return replace_matches(step.pattern, text, step.content); }
  std::string operator()(StripSpace step) const {
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (step.left && begin < end && is_space(code_point_at(text, begin).value))
      begin += code_point_at(text, begin).size;
    while (step.right && begin < end && is_space(code_point_before(text, end).value))
      end -= code_point_before(text, end).size;
    return text.substr(begin, end - begin);
  }
};

}  // namespace

void Normalizer::read(const Place& place) {
  const std::string& type = place.type();
  if (steps_.size() == kMostSteps) place.fail("is one of more than {} steps", kMostSteps);
  if (type == "Sequence") {
    for (const Place& step : place.at("normalizers").items()) read(step);
  } else if (type == "NFC") {
    steps_.emplace_back(NormalForm::nfc);
  } else if (type == "NFD") {
    steps_.emplace_back(NormalForm::nfd);
  } else if (type == "NFKC") {
    steps_.emplace_back(NormalForm::nfkc);
  } else if (type == "NFKD") {
    steps_.emplace_back(NormalForm::nfkd);
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps_.emplace_back(StripAccents{});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{place.at("prepend").short_string()});
  } else if (type == "Replace") {
    steps_.emplace_back(Replace{read_pattern(place.at("pattern")), place.at("content").short_string()});
  } else if (type == "Strip") {
    steps_.emplace_back(StripSpace{place.at("strip_left").boolean(), place.at("strip_right").boolean()});
  } else if (type == "Precompiled") {
    steps_.emplace_back(Charsmap(place.at("precompiled_charsmap")));
  } else {
    place.unsupported_type(
        "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Replace, Strip, Precompiled");
  }
}

std::string Normalizer::apply(std::string_view text) const {
  Rewrite rewrite{std::string(text)};
  for (const Step& step : steps_) rewrite.text = std::visit(rewrite, step);
  return std::move(rewrite.text);
}

}  // namespace tpinfer
