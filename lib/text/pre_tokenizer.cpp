#include "text/pre_tokenizer.hpp"

#include "text/byte_alphabet.hpp"
#include "text/unicode.hpp"

namespace tpinfer {
namespace {

void split_pieces(Pieces& pieces, const Pattern& pattern, SplitBehavior behavior, bool invert) {
  Splitter splitter;
  std::vector<Piece> parts;
  parts.reserve(pieces.list.size());
  for (const Piece& piece : pieces.list) {
    if (piece.token != Piece::kText) {
      parts.push_back(piece);
      continue;
    }
    for (const Span& span : splitter.split(pieces.view(piece), pattern, behavior, invert))
      if (span.begin != span.end)
        parts.push_back(
            {piece.begin + span.begin, piece.begin + span.end, Piece::kText, piece.starts_document && span.begin == 0});
  }
  pieces.list = std::move(parts);
}

// Rewrites the text of each piece that is not an added token: rewrite(view, piece, out) appends the new text to `out`.
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  std::string out;
  out.reserve(pieces.text.size() + pieces.text.size() / 2);
  for (Piece& piece : pieces.list) {
    const std::size_t begin = out.size();
    if (piece.token == Piece::kText) rewrite(pieces.view(piece), piece, out);
    piece.begin = begin;
    piece.end = out.size();
  }
  pieces.text = std::move(out);
}

void apply_byte_level(const ByteLevelStep& step, Pieces& pieces) {
  if (step.add_prefix_space)
    rewrite_pieces(pieces, [](std::string_view text, const Piece&, std::string& out) {
      if (!text.starts_with(' ')) out += ' ';
      out += text;
    });
  if (step.use_regex) split_pieces(pieces, Gpt2Pattern{}, SplitBehavior::isolated, false);
  rewrite_pieces(pieces, [](std::string_view text, const Piece&, std::string& out) {
    for (const char byte : text) out += byte_character(static_cast<unsigned char>(byte));
  });
}

void apply_metaspace(const MetaspaceStep& step, Pieces& pieces) {
  rewrite_pieces(pieces, [&step](std::string_view text, const Piece& piece, std::string& out) {
    const bool prepends =
        step.scheme == PrependScheme::always || (step.scheme == PrependScheme::first && piece.starts_document);
    if (prepends && !text.starts_with(' ') && !text.starts_with(step.replacement)) out += step.replacement;
    for (const char byte : text) {
      if (byte == ' ') {
        out += step.replacement;
      } else {
        out += byte;
      }
    }
  });
  if (step.split) split_pieces(pieces, step.replacement, SplitBehavior::merged_with_next, false);
}

struct Apply {
  Pieces& pieces;
  void operator()(const SplitStep& step) const { split_pieces(pieces, step.pattern, step.behavior, step.invert); }
  void operator()(const ByteLevelStep& step) const { apply_byte_level(step, pieces); }
  void operator()(const MetaspaceStep& step) const { apply_metaspace(step, pieces); }
};

SplitBehavior behavior_or(const Place& place, SplitBehavior otherwise) {
  const auto behavior = place.find("behavior");
  return behavior ? read_split_behavior(*behavior) : otherwise;
}

std::string character_text(const Place& place) {
  place.character();
  return place.string();
}

}  // namespace

PrependScheme read_prepend_scheme(const Place& metaspace) {
  const bool prefix = metaspace.boolean_or("add_prefix_space", true);
  const auto place = metaspace.find("prepend_scheme");
  if (!place) return prefix ? PrependScheme::always : PrependScheme::never;
  const std::string& name = place->string();
  if (name != "always" && name != "first" && name != "never")
    place->fail("the scheme \"{}\" is not known (known are always, first, never)", name);
  if (!prefix && name != "never") place->fail("\"{}\" contradicts \"add_prefix_space\": false", name);
  return name == "always" ? PrependScheme::always : name == "first" ? PrependScheme::first : PrependScheme::never;
}

void PreTokenizer::read(const Place& place) {
  const std::string& type = place.type();
  if (steps_.size() == kMostSteps) place.fail("is one of more than {} steps", kMostSteps);
  if (type == "Sequence") {
    for (const Place& step : place.at("pretokenizers").items()) read(step);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevelStep{place.at("add_prefix_space").boolean(), place.boolean_or("use_regex", true)});
  } else if (type == "Split") {
    steps_.emplace_back(SplitStep{read_pattern(place.at("pattern")), read_split_behavior(place.at("behavior")),
                                  place.boolean_or("invert", false)});
  } else if (type == "Metaspace") {
    steps_.emplace_back(MetaspaceStep{character_text(place.at("replacement")), read_prepend_scheme(place),
                                      place.boolean_or("split", true)});
  } else if (type == "Digits") {
    steps_.emplace_back(SplitStep{
        &is_numeric, place.boolean_or("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous,
        false});
  } else if (type == "Punctuation") {
    steps_.emplace_back(SplitStep{&is_punctuation, behavior_or(place, SplitBehavior::isolated), false});
  } else if (type == "Whitespace") {
    steps_.emplace_back(SplitStep{WordPattern{}, SplitBehavior::removed, true});
  } else if (type == "WhitespaceSplit") {
    steps_.emplace_back(SplitStep{&is_space, SplitBehavior::removed, false});
  } else if (type == "CharDelimiterSplit") {
    steps_.emplace_back(SplitStep{character_text(place.at("delimiter")), SplitBehavior::removed, false});
  } else {
    place.unsupported_type(
        "Sequence, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit");
  }
}

void PreTokenizer::apply(Pieces& pieces) const {
  for (const Step& step : steps_) std::visit(Apply{pieces}, step);
}

}  // namespace tpinfer
