#include "text/sentencepiece_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/error.hpp"
#include "text/utf8.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{32} << 20;  // real ones have up to 5 MB

// The file is a protobuf message. The library that writes it hands out neither the kinds of models and pieces nor the
// texts of unused pieces, so the few fields that count are read here.
enum Field : std::uint32_t { pieces = 1, trainer_spec = 2 };
enum PieceField : std::uint32_t { piece_text = 1, piece_score = 2, piece_type = 3 };
enum TrainerField : std::uint32_t { model_type = 3, unk_piece = 45 };

/// Walks over the fields of one message.
class Message {
 public:
  Message(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  struct Value {
    std::uint32_t field;
    std::uint64_t number;    // of varints and fixed-width numbers
    std::string_view bytes;  // of strings and messages
  };

  std::optional<Value> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    const std::uint64_t key = varint();
    Value value{static_cast<std::uint32_t>(key >> 3), 0, {}};
    switch (key & 7) {
      case 0: value.number = varint(); break;
      case 1: value.number = fixed(8); break;
      case 2: value.bytes = take(varint()); break;
      case 5: value.number = fixed(4); break;
      default: fail();
    }
    return value;
  }

  [[noreturn]] void fail() const {
    throw Error(ExitCode::input, fmt::format("{}: is not a SentencePiece model, or a damaged one", file_),
                "copy the file again, or put the model's tokenizer.json beside it");
  }

 private:
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return number;
    }
    fail();
  }
  std::uint64_t fixed(unsigned size) {
    const std::string_view raw = take(size);
    std::uint64_t number = 0;
    for (unsigned i = 0; i < size; ++i)
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    return number;
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) fail();
    const std::string_view part = bytes_.substr(at_, static_cast<std::size_t>(size));
    at_ += part.size();
    return part;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  const std::string& file_;
};

SentencePieceModel::Piece read_piece(Message message, const std::string& file, std::size_t id) {
  SentencePieceModel::Piece piece;
  while (const auto value = message.next()) {
    if (value->field == piece_text) piece.text = value->bytes;
    if (value->field == piece_score) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(value->number));
    if (value->field == piece_type) {
      if (value->number < 1 || value->number > 6) message.fail();
      piece.type = static_cast<SentencePieceModel::Type>(value->number);
    }
  }
  if (piece.text.empty() || !is_valid_utf8(piece.text)) message.fail();
  if (!std::isfinite(piece.score))
    fail_input("{}: the score of the piece \"{}\" (id {}) is not a finite number", file, piece.text, id);
  return piece;
}

void read_trainer_spec(Message message, const std::string& file, SentencePieceModel& model) {
  while (const auto value = message.next()) {
    if (value->field == unk_piece) {
      if (!is_valid_utf8(value->bytes)) message.fail();
      model.unk_piece = value->bytes;
    }
    if (value->field != model_type) continue;
    if (value->number != 1 && value->number != 2)
      fail_input("{}: is a SentencePiece model of kind {}, and only unigram (1) and BPE (2) are supported", file,
                 value->number);
    model.kind = static_cast<SentencePieceModel::Kind>(value->number);
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string bytes = read_text_file(file, kMaxBytes);
  if (bytes.starts_with("version https://git-lfs"))
    fail_input("{}: is a Git LFS pointer, not the file itself (run git lfs pull in its folder)", file);
  SentencePieceModel model;
  Message message(bytes, file);
  while (const auto value = message.next()) {
    if (value->field == pieces)
      model.pieces.push_back(read_piece(Message(value->bytes, file), file, model.pieces.size()));
    if (value->field == trainer_spec) read_trainer_spec(Message(value->bytes, file), file, model);
    if (static_cast<std::int64_t>(model.pieces.size()) > kTokenIdLimit)
      fail_input("{}: has more than {} pieces", file, kTokenIdLimit);
  }
  if (model.pieces.empty()) message.fail();
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (const auto [at, is_new] = ids.try_emplace(model.pieces[id].text, id); !is_new)
      fail_input("{}: the piece \"{}\" occurs twice, with the ids {} and {}", file, model.pieces[id].text, at->second,
                 id);
  return model;
}

Json sentencepiece_merges(const SentencePieceModel& model, const std::string& file) {
  // Far above what real models have: a hostile file's piece of a megabyte would have a million splits.
  constexpr std::size_t kLongestMerged = 256;  // bytes
  constexpr std::size_t kMostSplits = std::size_t{1} << 22;
  struct Split {
    float score;
    std::size_t left, right;
  };
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) ids.emplace(model.pieces[id].text, id);
  std::vector<Split> splits;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const std::string_view text = piece.text;
    if (text.size() > kLongestMerged) continue;
    const auto first = static_cast<std::ptrdiff_t>(splits.size());
    for (std::size_t cut = code_point_at(text, 0).size; cut < text.size(); cut += code_point_at(text, cut).size) {
      const auto left = ids.find(text.substr(0, cut));
      const auto right = left == ids.end() ? ids.end() : ids.find(text.substr(cut));
      if (right != ids.end()) splits.push_back({piece.score, left->second, right->second});
    }
    if (splits.size() > kMostSplits) fail_input("{}: its pieces make more than {} merges", file, kMostSplits);
    std::sort(splits.begin() + first, splits.end(),
              [](const Split& a, const Split& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::stable_sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) { return a.score > b.score; });
  Json merges = Json::array();
  for (const Split& split : splits) merges.push_back({model.pieces[split.left].text, model.pieces[split.right].text});
  return merges;
}

}  // namespace tpinfer
