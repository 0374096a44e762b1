#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "model/families_tokenizers.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  std::string text(std::size_t length) {
    static constexpr char32_t kLimits[] = {0x80, 0x80, 0x800, 0x3000, 0x10000, 0x110000};
    static constexpr std::string_view kParts[] = {" ",   "  ",        "\n",       "\t", "'s",
                                                  "the", "e\xCC\x81", "\xC2\xA0", "12", "."};
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
      if (below(2) == 0) {
        text += kParts[below(std::size(kParts))];
        continue;
      }
      const auto c = static_cast<char32_t>(below(kLimits[below(std::size(kLimits))]));
      // no surrogates; U+2581 is a space to some tokenizers; no '<', which may begin a special token
      if ((c < 0xD800 || c >= 0xE000) && c != 0x2581 && c != U'<') append_utf8(text, c);
    }
    return text;
  }

 private:
  std::mt19937_64 random_;
};

TEST(RoundTrip, RandomTextsComeBack) {
  for (const char* model : {"tiny-llama", "rand-llama-tied"}) {
    const Tokenizer tokenizer = Tokenizer::load(kData / "models" / model);
    RandomText random(7);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = random.text(1 + random.below(30));
      ASSERT_TRUE(is_valid_utf8(text));
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false), false), text) << model << ' ' << Json(text);
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true), true), text) << model << ' ' << Json(text);
      if (HasFailure()) return;
    }
  }
}

// Whatever the ids, the stream's text is that of decode(), is valid, and never has to be taken back.
TEST(RoundTrip, RandomIdsStreamAsTheyDecode) {
  std::vector<std::filesystem::path> folders = {kData / "models/tiny-llama", kData / "models/rand-llama-tied"};
  for (const auto& entry : std::filesystem::directory_iterator(kData / "tokenizers"))
    if (entry.is_directory()) folders.push_back(entry.path());
  for (const auto& folder : folders) {
    const Tokenizer tokenizer = Tokenizer::load(folder, kTokenizerClasses);
    RandomText random(11);
    for (int i = 0; i < 300; ++i) {
      std::vector<std::int32_t> ids(1 + random.below(12));
      // most ids below 300: the byte tokens; some that no token has
      for (auto& id : ids) id = static_cast<std::int32_t>(random.below(random.below(3) ? 300 : 2100)) - 1;
      for (const bool skip : {false, true}) {
        IncrementalDecoder decoder(tokenizer, skip);
        std::string text;
        for (const auto id : ids) {
          const std::string part = decoder.push(id);
          ASSERT_TRUE(is_valid_utf8(part)) << folder << ' ' << Json(ids);
          text += part;
        }
        ASSERT_EQ(text + decoder.finish(), tokenizer.decode(ids, skip)) << folder << ' ' << Json(ids);
      }
    }
  }
}

// Threads fill the cache of pieces together, and each meets what the others have put there.
TEST(RoundTrip, SeveralThreadsGetTheSameIds) {
  RandomText random(13);
  std::vector<std::string> texts;
  for (int i = 0; i < 400; ++i) texts.push_back(random.text(1 + random.below(40)) + " the same words in each text");
  for (const char* name : {"models/rand-llama-tied", "tokenizers/sentencepiece-bpe", "tokenizers/unigram-charsmap"}) {
    const Tokenizer tokenizer = Tokenizer::load(kData / name, kTokenizerClasses);
    const auto encode_all = [&texts](const Tokenizer& own, std::size_t first) {
      std::vector<std::vector<std::int32_t>> all(texts.size());
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::size_t at = (first + i) % texts.size();
        all[at] = own.encode(texts[at], true);
      }
      return all;
    };
    std::vector<std::vector<std::vector<std::int32_t>>> results(4);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < results.size(); ++i)
        threads.emplace_back([&, i] { results[i] = encode_all(tokenizer, 50 * i); });
    }
    const auto alone = encode_all(Tokenizer::load(kData / name, kTokenizerClasses), 0);
    for (const auto& result : results) EXPECT_EQ(result, alone) << name;
  }
}

}  // namespace
}  // namespace tpinfer::test
