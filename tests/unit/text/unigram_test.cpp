#include "text/unigram.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/error.hpp"
#include "text/charsmap.hpp"

namespace tpinfer::test {
namespace {

using Ids = std::vector<std::int32_t>;
using Words = std::vector<std::pair<std::string, double>>;

Ids encode(const Json& model, std::string_view text) {
  Ids ids;
  Unigram(Place(model, "model")).encode(text, ids);
  return ids;
}

Json with_vocab(const Json& vocab, const Json& more = Json::object()) {
  Json json = {{"type", "Unigram"}, {"unk_id", 0}};
  json["vocab"] = vocab;
  json.update(more);
  return json;
}

Json model(const Words& words, const Json& more = Json::object()) {
  Json vocab = Json::array();
  for (const auto& [word, score] : words) vocab.push_back(Json::array({word, score}));
  return with_vocab(vocab, more);
}

TEST(Unigram, TakesTheBestSumAndTheFirstOfEqualOnes) {
  const Words words = {{"<unk>", 0.0}, {"a", -1.0}, {"b", -1.0}, {"ab", -1.5}, {"abc", -9.0}, {"c", -2.0}};
  EXPECT_EQ(encode(model(words), "abc"), (Ids{3, 5}));
  EXPECT_EQ(encode(model({{"<unk>", 0.0}, {"a", -1.0}, {"b", -1.0}, {"ab", -2.0}}), "ab"), Ids{3});  // offered first
  EXPECT_EQ(encode(model(words), ""), Ids{});
}

TEST(Unigram, UnknownCharactersFuse) {
  const Words words = {{"<unk>", 0.0}, {"a", -1.0}, {"<0xC3>", -5.0}, {"<0xA9>", -5.0}};
  EXPECT_EQ(encode(model(words), "xyaz"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode(model(words, {{"byte_fallback", true}}), "a\xC3\xA9"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(model(words, {{"byte_fallback", true}}), "\xC3\xA9x"), Ids{0});  // x has no byte, and they are one
  try {
    encode(model({{"a", -1.0}}, {{"unk_id", nullptr}}), "ax");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    EXPECT_NE(std::string_view(error.what()).find("\"x\""), std::string_view::npos) << error.what();
  }
}

TEST(Unigram, TheLaterOfEqualTokensCounts) {
  EXPECT_EQ(encode(model({{"<unk>", 0.0}, {"a", -1.0}, {"a", -3.0}}), "a"), Ids{2});
}

// The best sum of scores over every way to cut a text.
double best_score(const Words& words, std::string_view text, double unknown) {
  std::vector<double> best(text.size() + 1, -INFINITY);
  best[0] = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    bool single = false;
    for (const auto& [word, score] : words) {
      if (!text.substr(at).starts_with(word)) continue;
      best[at + word.size()] = std::max(best[at + word.size()], best[at] + score);
      single = single || word.size() == 1;
    }
    if (!single) best[at + 1] = std::max(best[at + 1], best[at] + unknown);
  }
  return best.back();
}

TEST(Unigram, AgreesWithTryingAllCuts) {
  std::mt19937_64 random(17);
  const auto letters = [&](std::size_t size) {
    std::string word;
    while (word.size() < size) word += static_cast<char>('a' + random() % 3);
    return word;
  };
  for (int round = 0; round < 200; ++round) {
    Words words = {{"<unk>", -20.0}};
    while (words.size() < 9) {
      const std::string word = letters(1 + random() % 4);
      if (std::ranges::find(words, word, &Words::value_type::first) != words.end()) continue;
      words.emplace_back(word, -static_cast<double>(random() % 1000) / 100);
    }
    const Json json = model(words);
    const Unigram unigram(Place(json, "model"));
    const std::string text = letters(1 + random() % 12);
    Ids ids;
    unigram.encode(text, ids);
    std::string joined;
    double score = 0;
    for (const std::int32_t id : ids) {
      if (id == 0) break;  // how many unknown characters there are is not told
      joined += unigram.vocabulary().token(id);
      score += words[static_cast<std::size_t>(id)].second;
    }
    if (joined.size() < text.size()) continue;
    EXPECT_EQ(joined, text);
    EXPECT_NEAR(score, best_score(words, text, -30.0), 1e-9) << text;
  }
}

std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    return error.what();
  }
  return {};
}

TEST(Unigram, WrongModelsEndInASentence) {
  const auto expect = [](const Json& json, std::string_view word) {
    const std::string text = complaint([&] { Unigram(Place(json, "t.json")); });
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  expect(with_vocab(Json::object()), "t.json: vocab: must be an array");
  expect(with_vocab(Json::array({Json::array({"a", -1.0, 2})})), "[0]");
  expect(with_vocab(Json::array({Json::array({"a", "b"})})), "[0]");
  expect(model({{"a", -1.0}}, {{"unk_id", 1}}), "unk_id: the number 1 is outside of 0 to 0");
  expect(model({}), "no token");
  expect(model({{std::string(2000, 'a'), -1.0}}), "2000 bytes");
  expect(Json{{"type", "Unigram"}}, "vocab");
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8) | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[(group >> (18 - 6 * k)) & 63];
  }
  return out;
}

TEST(Charsmap, DamagedTablesEndInASentence) {
  const auto expect = [](const Json& json, std::string_view word) {
    const std::string text = complaint([&] { Charsmap(Place(json, "t.json: charsmap")); });
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  expect(7, "string");
  expect("?", "base64");
  expect("AA==", "too short");
  expect(base64(std::string("\xFF\0\0\0abcd", 8)), "does not fit");
  expect(base64(std::string("\3\0\0\0abcd", 8)), "does not fit");
  expect(base64(std::string("\0\0\0\0\xFF", 5)), "UTF-8");
  EXPECT_EQ(complaint([] { Charsmap(Place(Json(base64(std::string("\0\0\0\0", 4))), "here")); }), "");
}

// Whatever the numbers in the table: it ends, and what comes out is text.
TEST(Charsmap, RandomTablesDoNoHarm) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = {64, 0, 0, 0};
    for (int i = 0; i < 64; ++i) bytes += static_cast<char>(random() % (random() % 2 ? 256 : 4));
    bytes += std::string("\xC3\xA9\0\xE5\xAD\x97z\0", 8);
    const Json json = base64(bytes);
    const Charsmap table(Place(json, "here"));
    std::string text;
    for (int i = 0; i < 20; ++i) text += static_cast<char>(1 + random() % 127);
    EXPECT_TRUE(is_valid_utf8(table.apply(text + "\xC3\xA9\xCC\x81"))) << round;
  }
}

}  // namespace
}  // namespace tpinfer::test
