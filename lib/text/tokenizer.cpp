#include "text/tokenizer.hpp"

#include <algorithm>
#include <variant>

#include "text/added_tokens.hpp"
#include "text/bpe.hpp"
#include "text/decoder.hpp"
#include "text/normalizer.hpp"
#include "text/post_processor.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/tokenizer_document.hpp"
#include "text/unigram.hpp"
#include "text/utf8.hpp"
#include "text/word_level.hpp"

namespace tpinfer {
namespace {

/// What turns a piece of text into ids.
class TokenModel {
 public:
  explicit TokenModel(const Place& place) : kind_(read(place)) {}

  const Vocabulary& vocabulary() const {
    return std::visit([](const auto& model) -> const Vocabulary& { return model.vocabulary(); }, kind_);
  }

  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Bpe::Scratch& scratch) const {
    if (const auto* bpe = std::get_if<Bpe>(&kind_))
      bpe->encode(piece, ids, scratch);
    else if (const auto* unigram = std::get_if<Unigram>(&kind_))
      unigram->encode(piece, ids);
    else
      std::get<WordLevel>(kind_).encode(piece, ids);
  }

 private:
  using Kind = std::variant<Bpe, Unigram, WordLevel>;

  static Kind read(const Place& place) {
    // files of old writers have no type; their merges tell
    const bool named = place.find("type").has_value();
    if (named && place.type() == "WordLevel") return Kind(std::in_place_type<WordLevel>, place);
    if (named && place.type() == "Unigram") return Kind(std::in_place_type<Unigram>, place);
    if (named ? place.type() != "BPE" : !place.find("merges").has_value())
      place.unsupported_type("BPE, Unigram, WordLevel");
    return Kind(std::in_place_type<Bpe>, place);
  }

  Kind kind_;
};

template <class T>
T read_or_default(const Place& root, std::string_view key) {
  const auto place = root.find(key);
  return place ? T(*place) : T();
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const Place& root)
      : normalizer(read_or_default<Normalizer>(root, "normalizer")),
        pre_tokenizer(read_or_default<PreTokenizer>(root, "pre_tokenizer")),
        model(root.at("model")),
        added(root.find("added_tokens"), model.vocabulary(), normalizer),
        decoder(read_decoder(root.find("decoder"))) {
    if (const auto place = root.find("post_processor"))
      post_processor = PostProcessor(*place, [this](std::int32_t id) { return has_token(id); });
  }

  bool has_token(std::int32_t id) const { return added.find(id) != nullptr || model.vocabulary().has(id); }

  std::optional<std::int32_t> id_of(std::string_view token) const {
    if (const AddedToken* found = added.find(token)) return found->id;
    return model.vocabulary().id(token);
  }

  std::string_view token_of(std::int32_t id) const {
    const AddedToken* found = added.find(id);
    return found ? std::string_view(found->content) : model.vocabulary().token(id);
  }

  bool is_special(std::int32_t id) const {
    const AddedToken* found = added.find(id);
    return found != nullptr && found->special;
  }

  bool decodes(std::int32_t id, bool skip_special_tokens) const {
    return has_token(id) && !(skip_special_tokens && is_special(id));
  }

  // "truncation" and "padding" are left aside: they are settings of a training run, and off unless a caller asks.
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenModel model;
  AddedTokens added;
  PostProcessor post_processor;
  std::vector<std::shared_ptr<const DecoderStep>> decoder;
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
};

Tokenizer::Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::load(const std::filesystem::path& folder, std::span<const TokenizerClass> classes) {
  const TokenizerDocument document = read_tokenizer_document(folder, classes);
  const auto parts = std::make_shared<Parts>(Place(document.json, document.name));
  if (document.bos) parts->bos = parts->id_of(*document.bos);
  if (document.eos) parts->eos = parts->id_of(*document.eos);
  return Tokenizer(parts);
}

bool Tokenizer::is_in(const std::filesystem::path& folder) { return has_tokenizer_files(folder); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    fail_input("the text to tokenize is not valid UTF-8 at byte {} of {}", at, text.size());
  Pieces pieces = parts_->added.extract(text, parts_->normalizer);
  parts_->pre_tokenizer.apply(pieces);
  std::vector<std::int32_t> ids;
  Bpe::Scratch scratch;
  for (const Piece& piece : pieces.list) {
    if (piece.token != Piece::kText) {
      ids.push_back(piece.token);
    } else {
      parts_->model.encode(pieces.view(piece), ids, scratch);
    }
  }
  return parts_->post_processor.apply(std::move(ids), add_special_tokens);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  DecoderStream stream(parts_->decoder);
  for (const std::int32_t id : ids)
    if (parts_->decodes(id, skip_special_tokens)) stream.push(parts_->token_of(id));
  stream.finish();
  return stream.take();
}

std::int64_t Tokenizer::vocab_size() const {
  return std::max(parts_->model.vocabulary().id_end(), parts_->added.id_end());
}

bool Tokenizer::has_token(std::int32_t id) const { return parts_->has_token(id); }
bool Tokenizer::is_special(std::int32_t id) const { return parts_->is_special(id); }
std::string_view Tokenizer::id_to_token(std::int32_t id) const { return parts_->token_of(id); }
std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const { return parts_->id_of(token); }
std::optional<std::int32_t> Tokenizer::bos_token_id() const { return parts_->bos; }
std::optional<std::int32_t> Tokenizer::eos_token_id() const { return parts_->eos; }

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer),
      skip_special_tokens_(skip_special_tokens),
      stream_(std::make_unique<DecoderStream>(tokenizer_.parts_->decoder)) {}

IncrementalDecoder::~IncrementalDecoder() = default;
IncrementalDecoder::IncrementalDecoder(IncrementalDecoder&&) noexcept = default;
IncrementalDecoder& IncrementalDecoder::operator=(IncrementalDecoder&&) noexcept = default;

std::string IncrementalDecoder::push(std::int32_t id) {
  if (tokenizer_.parts_->decodes(id, skip_special_tokens_)) stream_->push(tokenizer_.parts_->token_of(id));
  return stream_->take();
}

std::string IncrementalDecoder::finish() {
  stream_->finish();
  return stream_->take();
}

}  // namespace tpinfer
