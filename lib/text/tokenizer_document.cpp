#include "text/tokenizer_document.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/gpt2_pattern.hpp"
#include "text/place.hpp"
#include "text/sentencepiece_model.hpp"
#include "text/tokenizer_settings.hpp"
#include "text/word_pattern.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMaxMerges = std::size_t{64} << 20;  // bytes
constexpr std::string_view kMark = "\xE2\x96\x81";         // U+2581 stands for a space in SentencePiece

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}, {"use_regex", use_regex}};
}

using IdsByToken = std::unordered_map<std::string_view, std::int64_t>;

/// Ids for the tokens to add: their own, that of the vocabulary, or the next free one.
class AddedTokenList {
 public:
  AddedTokenList(const std::vector<TokenToAdd>& tokens, const IdsByToken& ids) {
    for (const auto& [token, id] : ids) end_ = std::max(end_, id + 1);
    for (const TokenToAdd& token : tokens)
      if (token.id) end_ = std::max<std::int64_t>(end_, *token.id + std::int64_t{1});
    for (const TokenToAdd& token : tokens) {
      const auto known = ids.find(token.content);
      if (token.id) {
        add(token, *token.id);
      } else if (known != ids.end()) {
        add(token, known->second);
      } else if (!token.only_if_known) {
        add(token, end_++);
      }
    }
  }
  Json take() { return std::move(list_); }

 private:
  void add(const TokenToAdd& token, std::int64_t id) {
    list_.push_back({{"id", id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }

  std::int64_t end_ = 0;
  Json list_ = Json::array();
};

std::int64_t id_in(const Json& added, const std::string& content) {
  for (const Json& token : added)
    if (token["content"] == content) return token["id"].get<std::int64_t>();
  return -1;
}

// bos and eos round the text, as add_bos_token and add_eos_token say.
Json post_processor(const TokenizerSettings& settings, const Json& added) {
  Json single = Json::array();
  Json tokens = Json::object();
  const auto put = [&](const std::string& token) {
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    tokens[token] = {{"id", token}, {"ids", {id_in(added, token)}}, {"tokens", {token}}};
  };
  if (settings.add_bos) put(*settings.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (settings.add_eos) put(*settings.eos);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", tokens}};
}

Json read_merges(const std::filesystem::path& file) {
  const std::string text = read_text_file(file.string(), kMaxMerges);
  if (!is_valid_utf8(text)) fail_input("{}: is not valid UTF-8", file.string());
  Json merges = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool heading = at == 0 && line.starts_with("#version");
    if (!line.empty() && !heading) merges.push_back(line);
    at = end + 1;
  }
  return merges;
}

Json pre_tokenizer(const TokenizerSettings& settings) {
  const bool prefix = settings.add_prefix_space;
  if (settings.kind.nfc_words) {
    Json split = {{"type", "Split"}, {"pattern", {{"Regex", kWordRegex}}}, {"behavior", "Isolated"}, {"invert", false}};
    return {{"type", "Sequence"}, {"pretokenizers", {std::move(split), byte_level(prefix, false)}}};
  }
  if (!settings.kind.digits_apart) return byte_level(prefix, true);
  Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"type", "Sequence"}, {"pretokenizers", {std::move(digits), byte_level(prefix, true)}}};
}

Json from_vocabulary_and_merges(const std::filesystem::path& folder, const TokenizerSettings& settings) {
  Json vocab = read_tokenizer_file(folder / "vocab.json");
  const Place place(vocab, (folder / "vocab.json").string());
  if (!vocab.is_object()) place.fail("must be an object of tokens and ids");
  IdsByToken ids;
  for (const auto& [token, id] : vocab.items())
    if (id.is_number_integer()) ids.emplace(token, id.get<std::int64_t>());  // others are told of later
  AddedTokenList added(settings.added, ids);
  Json model = {{"type", "BPE"}, {"merges", read_merges(folder / "merges.txt")}};
  model["vocab"] = std::move(vocab);
  Json document = {
      {"added_tokens", added.take()}, {"pre_tokenizer", pre_tokenizer(settings)}, {"decoder", {{"type", "ByteLevel"}}}};
  if (settings.kind.nfc_words) document["normalizer"] = {{"type", "NFC"}};
  if (settings.add_bos || settings.add_eos)
    document["post_processor"] = post_processor(settings, document["added_tokens"]);
  document["model"] = std::move(model);
  return document;
}

// Where a word mark goes in front, one space is taken away again at the start of a decoded text.
Json word_mark_decoder(bool prefix) {
  Json steps = Json::array({{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

void put_word_marks(const TokenizerSettings& settings, Json& document) {
  if (settings.kind.word_mark_first && !settings.legacy) {
    document["pre_tokenizer"] = {{"type", "Metaspace"},
                                 {"replacement", kMark},
                                 {"prepend_scheme", settings.add_prefix_space ? "first" : "never"},
                                 {"split", false}};
    return;
  }
  Json steps = Json::array();
  if (settings.add_prefix_space) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// The first three ids of classes without a word mark in front have the names of their special tokens, and the token of
// the tab is the tab itself where no other piece is.
void rename_pieces(const TokenizerSettings& settings, SentencePieceModel& model) {
  const std::optional<std::string>* names[] = {&settings.pad, &settings.eos, &settings.bos};
  for (std::size_t id = 0; id < std::size(names) && id < model.pieces.size(); ++id)
    if (*names[id]) model.pieces[id].text = **names[id];
  const auto text = &SentencePieceModel::Piece::text;
  if (std::ranges::find(model.pieces, "\t", text) != model.pieces.end()) return;
  if (const auto tab = std::ranges::find(model.pieces, "<0x09>", text); tab != model.pieces.end()) tab->text = "\t";
}

Json bpe_model(const SentencePieceModel& model, const std::string& file) {
  Json vocab = Json::object();
  // the pieces differ, so nothing needs to be looked for
  auto& tokens = vocab.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) tokens.emplace_back(model.pieces[id].text, id);
  Json json = {{"type", "BPE"}, {"unk_token", model.unk_piece}, {"fuse_unk", true}, {"byte_fallback", true}};
  json["vocab"] = std::move(vocab);
  json["merges"] = sentencepiece_merges(model, file);
  return json;
}

Json unigram_model(const SentencePieceModel& model) {
  Json vocab = Json::array();
  std::size_t unknown = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    vocab.push_back({piece.text, static_cast<double>(piece.score)});
    if (piece.type == SentencePieceModel::Type::unknown) unknown = id;
  }
  return {{"type", "Unigram"}, {"unk_id", unknown}, {"byte_fallback", true}, {"vocab", std::move(vocab)}};
}

// Control pieces and user-defined ones are looked for in the text. Flags that the settings give count for all but
// control pieces, which the converter has added first.
std::vector<TokenToAdd> tokens_of_pieces(const SentencePieceModel& model, const TokenizerSettings& settings) {
  std::vector<TokenToAdd> tokens;
  std::set<std::string_view> settled, added;
  const auto& special_pieces = settings.kind.special_pieces;
  for (const TokenToAdd& token : settings.added)
    if (!token.named_only) settled.insert(token.content);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& [text, score, type] = model.pieces[id];
    const bool control = type == SentencePieceModel::Type::control;
    if (!control && (type != SentencePieceModel::Type::user_defined || settled.contains(text))) continue;
    const bool special = control || std::ranges::find(special_pieces, text) != special_pieces.end();
    tokens.push_back({.content = text, .id = static_cast<std::int32_t>(id), .special = special});
    added.insert(text);
  }
  std::ranges::copy_if(settings.added, std::back_inserter(tokens),
                       [&](const TokenToAdd& token) { return !added.contains(token.content); });
  return tokens;
}

Json from_sentencepiece(const std::filesystem::path& file, const TokenizerSettings& settings) {
  SentencePieceModel model = read_sentencepiece_model(file);
  if (!settings.kind.word_mark_first) rename_pieces(settings, model);
  IdsByToken ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    ids.emplace(model.pieces[id].text, static_cast<std::int64_t>(id));
  AddedTokenList added(tokens_of_pieces(model, settings), ids);
  // the first three are control tokens, whose scores count as 0
  for (std::size_t id = 0; id < 3 && id < model.pieces.size(); ++id) model.pieces[id].score = 0;
  Json document = {{"added_tokens", added.take()}, {"decoder", word_mark_decoder(settings.add_prefix_space)}};
  put_word_marks(settings, document);
  document["post_processor"] = post_processor(settings, document["added_tokens"]);
  document["model"] =
      model.kind == SentencePieceModel::Kind::bpe ? bpe_model(model, file.string()) : unigram_model(model);
  return document;
}

bool is_there(const std::filesystem::path& folder, const char* name) {
  std::error_code ignored;
  return std::filesystem::exists(folder / name, ignored);
}

bool has_vocabulary_and_merges(const std::filesystem::path& folder) {
  return is_there(folder, "vocab.json") && is_there(folder, "merges.txt");
}

}  // namespace

bool has_tokenizer_files(const std::filesystem::path& folder) {
  return is_there(folder, "tokenizer.json") || is_there(folder, "tokenizer.model") || has_vocabulary_and_merges(folder);
}

TokenizerDocument read_tokenizer_document(const std::filesystem::path& folder,
                                          std::span<const TokenizerClass> classes) {
  if (is_there(folder, "tokenizer.json")) {
    const std::filesystem::path file = folder / "tokenizer.json";
    auto [bos, eos] = read_special_token_names(folder);
    return {read_tokenizer_file(file), file.string(), std::move(bos), std::move(eos)};
  }
  if (!has_tokenizer_files(folder))
    throw Error(ExitCode::input,
                fmt::format("{}: there is no tokenizer.json in this folder, nor tokenizer.model, nor vocab.json with "
                            "merges.txt",
                            folder.string()),
                "copy the model's tokenizer.json there or name the folder that has it");
  TokenizerSettings settings = read_tokenizer_settings(folder, classes);
  const bool sentencepiece = settings.kind.files == TokenizerFiles::sentencepiece;
  const std::string needed = sentencepiece ? "tokenizer.model" : "vocab.json and merges.txt";
  const bool there = sentencepiece ? is_there(folder, "tokenizer.model") : has_vocabulary_and_merges(folder);
  if (!there)
    throw Error(ExitCode::input,
                fmt::format("{}: there is no tokenizer.json, and the class {} is read from {}, which is missing",
                            folder.string(), settings.kind.name, needed),
                "copy the model's tokenizer.json there");
  TokenizerDocument document;
  document.name = (folder / needed).string();
  document.json =
      sentencepiece ? from_sentencepiece(folder / needed, settings) : from_vocabulary_and_merges(folder, settings);
  document.bos = std::move(settings.bos);
  document.eos = std::move(settings.eos);
  return document;
}

}  // namespace tpinfer
