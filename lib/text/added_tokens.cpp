#include "text/added_tokens.hpp"

#include <algorithm>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

// Far above what real files have. A text takes (its length) x (that of the longest token) steps at worst; a byte of all
// tokens takes some sixty bytes of memory.
constexpr std::size_t kLongestToken = 512;
constexpr std::size_t kMostTokenBytes = std::size_t{4} << 20;

// Where the last character before `end` begins; `end` is not 0.
std::size_t previous_begin(std::string_view text, std::size_t end) {
  do --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

bool word_before(std::string_view text, std::size_t at) {
  return at > 0 && is_word(code_point_at(text, previous_begin(text, at)).value);
}

bool word_at(std::string_view text, std::size_t at) {
  return at < text.size() && is_word(code_point_at(text, at).value);
}

// Where the white space before `end` begins, not before `limit`.
std::size_t space_begin(std::string_view text, std::size_t limit, std::size_t end) {
  while (end > limit) {
    const std::size_t begin = previous_begin(text, end);
    if (!is_space(code_point_at(text, begin).value)) break;
    end = begin;
  }
  return end;
}

std::size_t space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size() && is_space(code_point_at(text, begin).value)) begin += code_point_at(text, begin).size;
  return begin;
}

}  // namespace

std::size_t StringTrie::child(std::size_t node, char byte) const {
  const auto& children = nodes_[node].children;
  const auto found = std::lower_bound(children.begin(), children.end(), byte,
                                      [](const auto& entry, char value) { return entry.first < value; });
  return found != children.end() && found->first == byte ? found->second : kNone;
}

void StringTrie::add(std::string_view text, std::size_t index) {
  std::size_t node = 0;
  if (!text.empty()) starts_[static_cast<unsigned char>(text[0])] = true;
  for (const char byte : text) {
    std::size_t next = child(node, byte);
    if (next == kNone) {
      next = nodes_.size();
      auto& children = nodes_[node].children;
      const std::pair<char, std::size_t> entry(byte, next);
      children.insert(std::upper_bound(children.begin(), children.end(), entry), entry);
      nodes_.emplace_back();
    }
    node = next;
  }
  if (nodes_[node].index == kNone) nodes_[node].index = index;
}

std::optional<StringTrie::Found> StringTrie::longest_at(std::string_view text, std::size_t at) const {
  std::optional<Found> longest;
  std::size_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == kNone) break;
    if (nodes_[node].index != kNone) longest = Found{nodes_[node].index, i + 1 - at};
  }
  return longest;
}

AddedTokens::AddedTokens(const std::optional<Place>& list, const Vocabulary& vocabulary, const Normalizer& normalizer) {
  if (!list) return;
  std::size_t bytes = 0;
  for (const Place& place : list->items()) {
    add(place, vocabulary);
    bytes += tokens_.back().content.size();
    if (bytes > kMostTokenBytes) list->fail("the tokens have more than {} bytes together", kMostTokenBytes);
  }
  std::stable_partition(tokens_.begin(), tokens_.end(), [](const AddedToken& token) { return token.special; });
  for (std::size_t i = 0; i < tokens_.size(); ++i) by_id_[tokens_[i].id] = by_content_[tokens_[i].content] = i;
  build_trie(normalizer, *list);
}

void AddedTokens::add(const Place& place, const Vocabulary& vocabulary) {
  const auto id = static_cast<std::int32_t>(place.at("id").integer(0, kTokenIdLimit - 1));
  AddedToken token{.id = id,
                   .content = place.at("content").short_string(kLongestToken),
                   .single_word = place.boolean_or("single_word", false),
                   .lstrip = place.boolean_or("lstrip", false),
                   .rstrip = place.boolean_or("rstrip", false),
                   .normalized = place.boolean_or("normalized", true),
                   .special = place.boolean_or("special", false)};
  if (token.content.empty()) place.fail("an added token can not be the empty string");
  const auto known = vocabulary.id(token.content);
  if (known && *known != id)
    place.fail("the token \"{}\" has the id {} here and {} in model.vocab", token.content, id, *known);
  if (!known && vocabulary.has(id))
    place.fail("the tokens \"{}\" and \"{}\" have the same id {}", vocabulary.token(id), token.content, id);
  if (const AddedToken* other = find(id))
    place.fail("the tokens \"{}\" and \"{}\" have the same id {}", other->content, token.content, id);
  if (const AddedToken* other = find(token.content))
    place.fail("the token \"{}\" is listed twice, with the ids {} and {}", token.content, other->id, id);
  by_id_[id] = by_content_[token.content] = tokens_.size();
  tokens_.push_back(std::move(token));
}

void AddedTokens::build_trie(const Normalizer& normalizer, const Place& list) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].normalized) {
      raw_.add(tokens_[i].content, i);
      continue;
    }
    const std::string spelling = normalizer.apply(tokens_[i].content);
    if (spelling.empty())
      list.fail("nothing is left of the token \"{}\" (id {}) when it is normalized", tokens_[i].content, tokens_[i].id);
    normalized_.add(spelling, i);
  }
}

// Calls emit(begin, end, token) for each part of the text, in order; token is null for what is no added token. A token
// with rstrip may reach over the next match: both are emitted, as the reference does.
template <class Emit>
void AddedTokens::cut(std::string_view text, const StringTrie& trie, const Emit& emit) const {
  std::size_t done = 0;
  for (std::size_t at = trie.next_start(text, 0); at < text.size(); at = trie.next_start(text, at)) {
    const auto found = trie.longest_at(text, at);
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found->index];
    std::size_t begin = at;
    std::size_t end = at += found->size;
    if (token.single_word && (word_before(text, begin) || word_at(text, end))) continue;
    if (token.lstrip) begin = space_begin(text, done, begin);
    if (token.rstrip) end = space_end(text, end);
    if (done < begin) emit(done, begin, nullptr);
    emit(begin, end, &token);
    done = end;
  }
  if (done < text.size()) emit(done, text.size(), nullptr);
}

Pieces AddedTokens::extract(std::string_view text, const Normalizer& normalizer) const {
  Pieces pieces;
  pieces.text.reserve(text.size() + text.size() / 4);
  cut(text, raw_, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
    if (token) {
      pieces.append(text.substr(begin, end - begin), token->id, begin == 0);
      return;
    }
    const std::string part = normalizer.apply(text.substr(begin, end - begin));
    cut(part, normalized_, [&](std::size_t from, std::size_t to, const AddedToken* inner) {
      pieces.append(std::string_view(part).substr(from, to - from), inner ? inner->id : Piece::kText,
                    begin == 0 && from == 0);
    });
  });
  return pieces;
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace tpinfer
