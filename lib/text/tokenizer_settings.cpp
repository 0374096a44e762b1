#include "text/tokenizer_settings.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "text/place.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {
namespace {

// Real files have up to 35 MB; a document takes some ten times its text in memory.
constexpr JsonLimits kLimits{.max_bytes = std::size_t{64} << 20, .max_depth = 64};

constexpr std::string_view kTokenKeys[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};

/// A JSON file that may be absent, then it is an empty object.
class OptionalFile {
 public:
  OptionalFile(const std::filesystem::path& folder, const char* name) : file_(folder / name) {
    std::error_code ignored;
    if (std::filesystem::exists(file_, ignored)) json_ = read_tokenizer_file(file_);
  }
  Place place() const { return Place(json_, file_.string()); }

 private:
  std::filesystem::path file_;
  Json json_ = Json::object();
};

// A special token is named by a string or by an object with "content".
std::optional<std::string> token_name(const Place& config, std::string_view key) {
  const auto token = config.find(key);
  if (!token) return std::nullopt;
  return token->value().is_object() ? token->at("content").string() : token->string();
}

TokenToAdd read_flags(const Place& token, bool special) {
  TokenToAdd out{.content = token.at("content").string()};
  out.special = token.boolean_or("special", special);
  out.single_word = token.boolean_or("single_word", false);
  out.lstrip = token.boolean_or("lstrip", false);
  out.rstrip = token.boolean_or("rstrip", false);
  out.normalized = token.boolean_or("normalized", !out.special);
  return out;
}

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

/// Puts the settings together; the order of the steps is that of Hugging Face's loader.
class Reader {
 public:
  Reader(const std::filesystem::path& folder, std::span<const TokenizerClass> classes)
      : folder_(folder),
        classes_(classes),
        config_(folder, "tokenizer_config.json"),
        map_(folder, "special_tokens_map.json"),
        added_(folder, "added_tokens.json"),
        model_(folder, "config.json") {}

  TokenizerSettings read() {
    out_.kind = find_class();
    read_names();
    if (const auto decoder = config_.place().find("added_tokens_decoder")) {
      read_added_tokens_decoder(*decoder);
    } else {
      read_added_tokens();
    }
    add_special_tokens();
    const Place config = config_.place();
    out_.add_bos = config.boolean_or("add_bos_token", out_.kind.adds_bos);
    out_.add_eos = config.boolean_or("add_eos_token", false);
    out_.add_prefix_space = config.boolean_or(
        "add_prefix_space", out_.kind.files == TokenizerFiles::sentencepiece && out_.kind.word_mark_first);
    out_.legacy = config.boolean_or("legacy", true);
    require_token(config, "add_bos_token", out_.add_bos, "bos_token", out_.bos);
    require_token(config, "add_eos_token", out_.add_eos, "eos_token", out_.eos);
    return std::move(out_);
  }

 private:
  TokenizerClass find_class() const {
    const std::string name = without_fast(config_.place().string_or("tokenizer_class", ""));
    const std::string model_type = model_.place().string_or("model_type", "");
    const auto row = [&](std::string_view wanted, std::string_view type) {
      return std::ranges::find_if(classes_, [&](const TokenizerClass& one) {
        return (wanted.empty() || one.name == wanted) && one.model_type == type;
      });
    };
    auto found = name.empty() && model_type.empty() ? classes_.end() : row(name, model_type);
    if (found == classes_.end() && !name.empty()) found = row(name, "");
    if (found != classes_.end()) return *found;
    std::set<std::string_view> known;
    for (const TokenizerClass& one : classes_) known.insert(one.name);
    const std::string asked = !name.empty()         ? fmt::format("the tokenizer class \"{}\"", name)
                              : !model_type.empty() ? fmt::format("the model type \"{}\"", model_type)
                                                    : "a folder that names no tokenizer class";
    throw Error(
        ExitCode::input,
        fmt::format("{}: there is no tokenizer.json, and {} is not known without one", folder_.string(), asked),
        fmt::format("put the model's tokenizer.json there; known as tokenizer_class of tokenizer_config.json are {}",
                    fmt::join(known, ", ")));
  }

  void read_names() {
    const auto name = [&](std::string_view key, std::string_view otherwise) -> std::optional<std::string> {
      const Json& config = config_.place().value();
      const bool said = config.contains(std::string(key));  // null: none
      if (auto token = token_name(config_.place(), key)) return token;
      if (auto token = token_name(map_.place(), key)) return token;
      if (said || otherwise.empty()) return std::nullopt;
      return std::string(otherwise);
    };
    out_.bos = name("bos_token", out_.kind.bos);
    out_.eos = name("eos_token", out_.kind.eos);
    out_.unk = name("unk_token", out_.kind.unk);
    out_.pad = name("pad_token", out_.kind.pad);
  }

  void read_added_tokens_decoder(const Place& place) {
    if (!place.value().is_object()) place.fail("must be an object of ids and tokens");
    std::map<std::int32_t, TokenToAdd> by_id;
    for (const auto& [key, value] : place.value().items()) {
      std::int32_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= kTokenIdLimit)
        place.fail("the id \"{}\" is not an integer from 0 to {}", key, kTokenIdLimit - 1);
      TokenToAdd token = read_flags(Place(value, fmt::format("{}.{}", place.name(), key)), false);
      token.id = id;
      by_id.insert_or_assign(id, std::move(token));
    }
    for (auto& [id, token] : by_id) add(token, place);
    settled_ = true;
  }

  void read_added_tokens() {
    const Place place = added_.place();
    if (!place.value().is_object()) place.fail("must be an object of tokens and ids");
    const std::set<std::string> special_names = names_of_special_tokens();
    std::map<std::int32_t, TokenToAdd> by_id;
    for (const auto& [content, value] : place.value().items()) {
      const Place number(value, fmt::format("{}: \"{}\"", place.name(), content));
      const auto id = static_cast<std::int32_t>(number.integer(0, kTokenIdLimit - 1));
      const bool special = special_names.contains(content);
      TokenToAdd token{.content = content, .id = id, .normalized = !special, .special = special};
      if (!by_id.try_emplace(id, token).second)
        place.fail("the tokens \"{}\" and \"{}\" have the same id {}", by_id.at(id).content, content, id);
    }
    for (auto& [id, token] : by_id) add(token, place);
  }

  // The tokens that have a part: bos_token, ..., then additional_special_tokens. Where both files speak the map's flags
  // count, unless added_tokens_decoder has settled them.
  void add_special_tokens() {
    const std::map<std::string_view, const std::optional<std::string>*> defaults = {
        {"bos_token", &out_.bos}, {"eos_token", &out_.eos}, {"unk_token", &out_.unk}, {"pad_token", &out_.pad}};
    for (const std::string_view key : kTokenKeys) {
      auto place = settled_ ? std::nullopt : map_.place().find(key);
      if (!place) place = config_.place().find(key);
      if (place) {
        add_special(*place);
      } else if (defaults.contains(key) && *defaults.at(key)) {
        add_special({.content = **defaults.at(key), .named_only = true, .only_if_known = true}, false);
      }
    }
    for_each_additional([this](const Place& token) { add_special(token); });
  }

  template <class Visit>
  void for_each_additional(const Visit& visit) const {
    for (const OptionalFile* file : {&map_, &config_}) {
      if (settled_ && file == &map_) continue;
      const auto list = file->place().find("additional_special_tokens");
      if (!list) continue;
      for (const Place& token : list->items()) visit(token);
    }
  }

  void add_special(const Place& token) {
    if (token.value().is_object()) return add_special(read_flags(token, true), !settled_);
    add_special({.content = token.string(), .named_only = true}, false);
  }

  // A token that is known already becomes special; its flags change when they are given anew.
  void add_special(TokenToAdd token, bool flags_count) {
    token.special = true;
    const auto [at, is_new] = index_.try_emplace(token.content, out_.added.size());
    if (is_new) return out_.added.push_back(std::move(token));
    TokenToAdd& known = out_.added[at->second];
    if (flags_count) {
      token.id = known.id;
      known = std::move(token);
    }
    known.special = true;
    known.only_if_known = known.only_if_known && token.only_if_known;
  }

  void add(const TokenToAdd& token, const Place& place) {
    const auto [at, is_new] = index_.try_emplace(token.content, out_.added.size());
    if (!is_new)
      place.fail("the token \"{}\" is listed twice, with the ids {} and {}", token.content,
                 out_.added[at->second].id.value_or(-1), token.id.value_or(-1));
    out_.added.push_back(token);
  }

  std::set<std::string> names_of_special_tokens() const {
    std::set<std::string> names;
    for (const OptionalFile* file : {&config_, &map_})
      for (const std::string_view key : kTokenKeys)
        if (auto name = token_name(file->place(), key)) names.insert(*std::move(name));
    for_each_additional(
        [&](const Place& token) { names.insert((token.value().is_object() ? token.at("content") : token).string()); });
    return names;
  }

  static void require_token(const Place& config, std::string_view key, bool asked, std::string_view token_key,
                            const std::optional<std::string>& token) {
    if (asked && !token) config.fail("\"{}\" is true, but there is no {}", key, token_key);
  }

  const std::filesystem::path& folder_;
  std::span<const TokenizerClass> classes_;
  OptionalFile config_, map_, added_, model_;
  TokenizerSettings out_;
  std::map<std::string, std::size_t> index_;  // of out_.added, by content
  bool settled_ = false;  // by added_tokens_decoder: then the flags in special_tokens_map.json do not count
};

}  // namespace

Json read_tokenizer_file(const std::filesystem::path& file) {
  const std::string text = read_text_file(file.string(), kLimits.max_bytes);
  if (text.starts_with("version https://git-lfs"))
    fail_input("{}: is a Git LFS pointer, not the file itself (run git lfs pull in its folder)", file.string());
  return parse_json(text, file.string(), kLimits);
}

SpecialTokenNames read_special_token_names(const std::filesystem::path& folder) {
  SpecialTokenNames names;
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {  // the latter has the last word
    const OptionalFile config(folder, file);
    if (auto token = token_name(config.place(), "bos_token")) names.bos = std::move(token);
    if (auto token = token_name(config.place(), "eos_token")) names.eos = std::move(token);
  }
  return names;
}

TokenizerSettings read_tokenizer_settings(const std::filesystem::path& folder,
                                          std::span<const TokenizerClass> classes) {
  return Reader(folder, classes).read();
}

}  // namespace tpinfer
