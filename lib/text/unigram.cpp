#include "text/unigram.hpp"

#include <algorithm>
#include <limits>

#include "text/piece_cache.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();
constexpr double kUnknownPenalty = 10.0;  // below the lowest score, as in the reference

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

Unigram::Unigram(const Place& model) : where_(model.name()), cache_(std::make_unique<PieceCache>()) {
  read_vocabulary(model.at("vocab"));
  if (const auto place = model.find("unk_id")) {
    if (vocabulary_.id_end() == 0) model.at("vocab").fail("there is no token, and unk_id needs one");
    unknown_ = static_cast<std::int32_t>(place->integer(0, vocabulary_.id_end() - 1));
  }
  if (model.boolean_or("byte_fallback", false)) {
    byte_ids_.emplace();
    for (unsigned byte = 0; byte < 256; ++byte)
      (*byte_ids_)[byte] = vocabulary_.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
}

Unigram::~Unigram() = default;
Unigram::Unigram(Unigram&&) noexcept = default;

void Unigram::read_vocabulary(const Place& place) {
  if (!place.value().is_array()) place.fail("must be an array of tokens and scores");
  if (place.value().size() > static_cast<std::size_t>(kTokenIdLimit))
    place.fail("has {} tokens, more than {}", place.value().size(), kTokenIdLimit);
  std::vector<std::string_view> tokens;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < place.value().size(); ++i) {
    const Json& entry = place.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      place.fail("the entry [{}] must be a token and its score", i);
    tokens.push_back(entry[0].get_ref<const std::string&>());
    if (tokens.back().size() > kMaxToken)
      place.fail("the token [{}] has {} bytes, more than {}", i, tokens.back().size(), kMaxToken);
    scores_.push_back(entry[1].get<double>());
    lowest = std::min(lowest, scores_.back());
  }
  unknown_score_ = lowest - kUnknownPenalty;
  vocabulary_ = Vocabulary(tokens);
  build_trie(std::move(tokens));
}

void Unigram::build_trie(std::vector<std::string_view> tokens) {
  std::ranges::sort(tokens);
  std::size_t nodes = 1;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    nodes += tokens[i].size() - (i == 0 ? 0 : common_prefix(tokens[i - 1], tokens[i]));
  trie_ = MergeTable(nodes);
  std::vector<std::int32_t> path = {0};  // the nodes of the token before, from the root on
  std::string_view previous;
  std::int32_t last = 0;
  for (const std::string_view token : tokens) {
    path.resize(1 + common_prefix(previous, token));
    while (path.size() <= token.size()) {
      const auto byte = static_cast<unsigned char>(token[path.size() - 1]);
      const bool ends = path.size() == token.size();
      const auto id = ends ? static_cast<std::uint32_t>(*vocabulary_.id(token)) : kNoToken;
      trie_.set(path.back(), byte, {id, ++last});
      path.push_back(last);
    }
    previous = token;
  }
}

// Lets every token that begins at `at` end the best cut of a longer part.
void Unigram::extend(std::string_view piece, std::size_t at, std::vector<Best>& best) const {
  const auto offer = [&](std::size_t end, double score, std::int32_t id) {
    Best& target = best[end];
    if (target.begin < 0 || score > target.score) target = {score, id, static_cast<std::int32_t>(at)};
  };
  const std::size_t character = code_point_at(piece, at).size;
  bool character_has_token = false;
  std::int32_t node = 0;
  for (std::size_t i = at; i < piece.size(); ++i) {
    const Merge* next = trie_.find(node, static_cast<unsigned char>(piece[i]));
    if (!next) break;
    node = next->result;
    if (next->rank == kNoToken) continue;
    offer(i + 1, best[at].score + scores_[next->rank], static_cast<std::int32_t>(next->rank));
    character_has_token = character_has_token || i + 1 == at + character;
  }
  if (!character_has_token) offer(at + character, best[at].score + unknown_score_, unknown_id(piece.substr(at)));
}

std::int32_t Unigram::unknown_id(std::string_view piece) const {
  if (!unknown_)
    fail_input("{}: the text holds \"{}\", which has no token, and there is no unk_id", where_,
               piece.substr(0, code_point_at(piece, 0).size));
  return *unknown_;
}

void Unigram::append(std::string_view token, std::vector<std::int32_t>& ids) const {
  if (const auto id = vocabulary_.id(token)) {
    ids.push_back(*id);
    return;
  }
  const auto byte_id = [this](char byte) { return (*byte_ids_)[static_cast<unsigned char>(byte)]; };
  if (byte_ids_ && std::ranges::all_of(token, [&](char byte) { return byte_id(byte) >= 0; })) {
    for (const char byte : token) ids.push_back(byte_id(byte));
    return;
  }
  ids.push_back(unknown_id(token));
}

void Unigram::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (piece.empty() || cache_->find(piece, ids)) return;
  if (piece.size() > kMaxPiece)
    fail_input("{}: a text of {} bytes is longer than the tokenizer's limit of {} (split it)", where_, piece.size(),
               kMaxPiece);
  std::vector<Best> best(piece.size() + 1);
  best[0].begin = 0;
  for (std::size_t at = 0; at < piece.size(); at += code_point_at(piece, at).size) extend(piece, at, best);
  std::vector<std::string_view> tokens;  // from the last to the first
  bool fuses = false;
  for (std::size_t end = piece.size(); end > 0;) {
    const auto begin = static_cast<std::size_t>(best[end].begin);
    const bool unknown = unknown_ && best[end].id == *unknown_;
    if (unknown && fuses) {
      tokens.back() = piece.substr(begin, tokens.back().size() + end - begin);
    } else {
      tokens.push_back(piece.substr(begin, end - begin));
    }
    fuses = unknown;
    end = begin;
  }
  const auto first = static_cast<std::ptrdiff_t>(ids.size());
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append(*token, ids);
  cache_->add(piece, ids.begin() + first, ids.end());
}

}  // namespace tpinfer
