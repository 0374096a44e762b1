#include "text/bpe.hpp"

#include <algorithm>
#include <functional>

#include "text/piece_cache.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581 stands for a space in SentencePiece

// The character that ends before byte `end`, which is not 0.
char32_t character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return code_point_at(text, begin).value;
}

}  // namespace

Bpe::Bpe(const Place& model)
    : where_(model.name()),
      vocabulary_(model.at("vocab")),
      unk_token_(model.string_or("unk_token", "")),
      word_prefix_(model.string_or("continuing_subword_prefix", "")),
      word_suffix_(model.string_or("end_of_word_suffix", "")),
      fuse_unk_(model.boolean_or("fuse_unk", false)),
      ignore_merges_(model.boolean_or("ignore_merges", false)),
      cache_(std::make_unique<PieceCache>()) {
  if (const auto dropout = model.find("dropout")) {
    if (!dropout->value().is_number()) dropout->fail("must be a number, not {}", dropout->value().type_name());
    if (dropout->value().get<double>() != 0.0)
      dropout->fail("the dropout {} makes ids random, which is for training only (set it to null)",
                    dropout->value().dump());
  }
  if (model.boolean_or("byte_fallback", false)) {
    byte_ids_.emplace();
    for (unsigned byte = 0; byte < 256; ++byte)
      (*byte_ids_)[byte] = vocabulary_.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  read_merges(model.at("merges"));
  for (std::size_t c = 0; c < ascii_ids_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_ids_[c] = vocabulary_.id(std::string_view(&character, 1)).value_or(-1);
  }
  find_word_starts();
}

Bpe::~Bpe() = default;
Bpe::Bpe(Bpe&&) noexcept = default;

void Bpe::read_merges(const Place& place) {
  if (!place.value().is_array()) place.fail("must be an array");
  const std::size_t count = place.value().size();
  merges_ = MergeTable(count);
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Json& merge = place.value()[i];
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = merge_parts(place, i);
    // an empty part would merge to its own neighbour, again and again
    if (left.empty() || right.empty())
      place.fail("the merge [{}] of \"{}\" and \"{}\" has an empty part", i, left, right);
    const std::int32_t left_id = merge_id(place, i, left);
    const std::int32_t right_id = merge_id(place, i, right);
    if (!right.starts_with(word_prefix_))
      place.fail("the right part \"{}\" of the merge [{}] does not begin with \"{}\"", right, i, word_prefix_);
    const std::string result = std::string(left).append(right.substr(word_prefix_.size()));
    merges_.set(left_id, right_id, {rank++, merge_id(place, i, result)});
  }
}

std::pair<std::string_view, std::string_view> Bpe::merge_parts(const Place& place, std::size_t index) const {
  const Json& merge = place.value()[index];
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      place.fail("the merge [{}] \"{}\" must be two tokens with a space between", index, text);
    return {text.substr(0, space), text.substr(space + 1)};
  }
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
    place.fail("the merge [{}] must be a string or a list of two strings", index);
  return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
}

std::int32_t Bpe::merge_id(const Place& place, std::size_t index, std::string_view token) const {
  const auto id = vocabulary_.id(token);
  if (!id) place.fail("the merge [{}] names the token \"{}\", which is not in model.vocab", index, token);
  return *id;
}

// A text of a tokenizer without pre-tokenizer is one piece. Cut into words it is the same, and words can be cached. Not
// so where characters are left out, so that marks far apart may meet, or where a token that stands for a character
// merges with a mark.
void Bpe::find_word_starts() {
  if (ignore_merges_ || !word_prefix_.empty() || !word_suffix_.empty() || !vocabulary_.id(kWordMark)) return;
  const bool all_bytes = byte_ids_ && std::ranges::find(*byte_ids_, -1) == byte_ids_->end();
  if (unk_token_.empty() && !all_bytes) return;
  std::vector<char32_t> before_marks;
  for (std::int32_t id = 0; id < vocabulary_.id_end(); ++id) {
    const std::string_view token = vocabulary_.token(id);
    for (std::size_t at = token.find(kWordMark, 1); at != std::string_view::npos; at = token.find(kWordMark, at + 1)) {
      if (ends_with_stand_in(token.substr(0, at))) return;
      before_marks.push_back(character_before(token, at));
    }
  }
  std::ranges::sort(before_marks);
  before_marks.erase(std::unique(before_marks.begin(), before_marks.end()), before_marks.end());
  before_marks_ = std::move(before_marks);
}

// Whether `text` ends with the unknown token or with one that stands for a byte.
bool Bpe::ends_with_stand_in(std::string_view text) const {
  if (!unk_token_.empty() && text.ends_with(unk_token_)) return true;
  constexpr std::string_view kByteToken = "<0x00>";
  if (!byte_ids_ || text.size() < kByteToken.size()) return false;
  const auto id = vocabulary_.id(text.substr(text.size() - kByteToken.size()));
  return id && std::ranges::find(*byte_ids_, *id) != byte_ids_->end();
}

void Bpe::encode(std::string_view piece, std::vector<std::int32_t>& ids, Scratch& scratch) const {
  if (piece.size() > kMaxPiece)
    fail_input("{}: a text of {} bytes is longer than the tokenizer's limit of {} (split it)", where_, piece.size(),
               kMaxPiece);
  if (ignore_merges_) {
    if (const auto whole = vocabulary_.id(piece)) {
      ids.push_back(*whole);
      return;
    }
  }
  std::size_t begin = 0;
  if (before_marks_) {
    for (std::size_t at = piece.find(kWordMark, 1); at != std::string_view::npos; at = piece.find(kWordMark, at + 1)) {
      if (std::ranges::binary_search(*before_marks_, character_before(piece, at))) continue;
      encode_word(piece.substr(begin, at - begin), ids, scratch);
      begin = at;
    }
  }
  encode_word(piece.substr(begin), ids, scratch);
}

void Bpe::encode_word(std::string_view piece, std::vector<std::int32_t>& ids, Scratch& scratch) const {
  if (cache_->find(piece, ids)) return;
  split_into_symbols(piece, scratch);
  merge_symbols(scratch);
  const auto before = static_cast<std::ptrdiff_t>(ids.size());
  for (const auto& symbol : scratch.symbols)
    if (symbol.id >= 0) ids.push_back(symbol.id);
  cache_->add(piece, ids.begin() + before, ids.end());
}

std::optional<std::int32_t> Bpe::symbol_id(std::string_view symbol) const {
  if (symbol.size() != 1) return vocabulary_.id(symbol);
  const std::int32_t id = ascii_ids_[static_cast<unsigned char>(symbol[0])];
  return id < 0 ? std::nullopt : std::optional(id);
}

void Bpe::split_into_symbols(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&symbols](std::int32_t id) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  std::optional<std::int32_t> unknown;  // an unk token that has not been put down yet: more may fuse with it
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t size = code_point_at(piece, at).size;
    std::string_view symbol = piece.substr(at, size);
    const bool prefixed = at > 0 && !word_prefix_.empty();
    const bool suffixed = at + size == piece.size() && !word_suffix_.empty();
    if (prefixed || suffixed) {
      scratch.spelling.assign(prefixed ? word_prefix_ : "").append(symbol).append(suffixed ? word_suffix_ : "");
      symbol = scratch.spelling;
    }
    at += size;
    if (const auto id = symbol_id(symbol)) {
      if (unknown) add(*std::exchange(unknown, std::nullopt));
      add(*id);
      continue;
    }
    const auto byte_id = [this](char byte) { return (*byte_ids_)[static_cast<unsigned char>(byte)]; };
    if (byte_ids_ && std::all_of(symbol.begin(), symbol.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : symbol) add(byte_id(byte));
      continue;
    }
    add_unknown(symbol, unknown, scratch);
  }
  if (unknown) add(*unknown);
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::add_unknown(std::string_view symbol, std::optional<std::int32_t>& unknown, Scratch& scratch) const {
  if (unk_token_.empty()) return;
  const auto id = vocabulary_.id(unk_token_);
  if (!id)
    fail_input("{}: the text holds \"{}\", which has no token, and unk_token \"{}\" is not in the vocabulary either",
               where_, symbol, unk_token_);
  if (unknown && !fuse_unk_) {
    const auto at = static_cast<std::int32_t>(scratch.symbols.size());
    scratch.symbols.push_back({*unknown, at - 1, at + 1});
  }
  unknown = id;
}

void Bpe::merge_symbols(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const auto symbol = [&symbols](std::int32_t at) -> auto& { return symbols[static_cast<std::size_t>(at)]; };
  const auto add_candidate = [&](std::int32_t at) {
    const Merge* merge = merges_.find(symbol(at).id, symbol(symbol(at).next).id);
    if (merge) heap.push_back({merge->rank, at, merge->result});
    return merge != nullptr;
  };
  for (std::size_t at = 0; at + 1 < symbols.size(); ++at) add_candidate(static_cast<std::int32_t>(at));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    auto& left = symbol(best.position);
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbol(left.next);
    const Merge* merge = merges_.find(left.id, right.id);
    if (!merge || merge->result != best.result) continue;
    left.id = best.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      symbol(left.next).previous = best.position;
      if (add_candidate(best.position)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
    if (left.previous >= 0 && add_candidate(left.previous)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
}

}  // namespace tpinfer
