#include "text/decoder.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tpinfer::test {
namespace {

struct Streamed {
  std::vector<std::string> parts;  // what became final with each token, then with the end
  std::string text() const {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  }
};

Streamed run(const std::string& decoder, const std::vector<std::string>& tokens) {
  const Json document = Json::parse(decoder);
  std::optional<Place> place;
  if (!document.is_null()) place.emplace(document, "decoder");
  const auto steps = read_decoder(place);
  DecoderStream stream(steps);
  Streamed result;
  for (const std::string& token : tokens) {
    stream.push(token);
    result.parts.push_back(stream.take());
  }
  stream.finish();
  result.parts.push_back(stream.take());
  return result;
}

using Parts = std::vector<std::string>;

TEST(Decoder, WithoutOneTokensAreJoinedBySpaces) { EXPECT_EQ(run("null", {"a", "", "b"}).text(), "a  b"); }

TEST(Decoder, RunsOfByteTokensAreHeldBack) {
  const std::string decoder = R"({"type":"ByteFallback"})";
  const std::string sign = "\xEF\xBF\xBD";
  EXPECT_EQ(run(decoder, {"a", "<0xE5>", "<0xAD>", "<0x97>", "b"}).parts, (Parts{"a", "", "", "",
                                                                                 "\xE5\xAD\x97"
                                                                                 "b",
                                                                                 ""}));
  // one bad byte spoils the whole run
  EXPECT_EQ(run(decoder, {"<0xE4>", "<0xBD>", "<0xA0>", "<0xE4>"}).text(), sign + sign + sign + sign);
  EXPECT_EQ(run(decoder, {"<0x4a>", "<0x+A>", "<0xZZ>"}).text(), "J\n<0xZZ>");
}

TEST(Decoder, BytesThatMayBecomeACharacterAreHeldBack) {
  // U+1F600 in the byte alphabet, cut in the middle
  EXPECT_EQ(run(R"({"type":"ByteLevel"})", {"\xC3\xB0\xC5\x81", "\xC4\xBA\xC4\xA2",
                                            "\xC4\xA0"
                                            "b"})
                .parts,
            (Parts{"", "\xF0\x9F\x98\x80", " b", ""}));
  EXPECT_EQ(run(R"({"type":"ByteLevel"})", {"\xC3\xB0", "a"}).text(),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(run(R"({"type":"ByteLevel"})", {"\xE5\xAD\x97"}).text(), "\xE5\xAD\x97");  // not in the alphabet: its bytes
}

TEST(Decoder, StripTakesFromBothEndsOfEachToken) {
  const std::string decoder = R"({"type":"Strip","content":"_","start":1,"stop":2})";
  EXPECT_EQ(run(decoder, {"__a_b___", "c", "_", ""}).parts, (Parts{"_a_b_", "c", "", "", ""}));
}

TEST(Decoder, AfterFuseStripSeesTheWholeTextAndStillStreams) {
  const std::string decoder =
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},
      {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]})";
  EXPECT_EQ(run(decoder, {"_", "_a", "_", "b", "_"}).parts, (Parts{"", " a", "", " b", "", ""}));
}

TEST(Decoder, ALiteralIsReplacedAcrossFusedTokens) {
  const std::string decoder =
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"aab"},"content":"X"}]})";
  EXPECT_EQ(run(decoder, {"ca", "a", "a", "b", "aa"}).parts, (Parts{"c", "", "a", "X", "", "aa"}));
}

TEST(Decoder, MetaspaceDropsTheFirstSpaceOnly) {
  EXPECT_EQ(run(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})", {"_a", "_b"}).text(), "a b");
  EXPECT_EQ(run(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never"})", {"_a", "_b"}).text(), " a b");
}

TEST(Decoder, ASuffixIsASpaceUnlessItEndsTheText) {
  EXPECT_EQ(run(R"({"type":"BPEDecoder","suffix":"</w>"})", {"a", "b</w>", "c</w>"}).parts,
            (Parts{"", "a", "b ", "c"}));
}

TEST(Decoder, UnknownTypesAreRefusedByName) {
  try {
    run(R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"CTC"}]})", {});
    FAIL() << "CTC was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    EXPECT_NE(std::string(error.what()).find("decoder.decoders[1]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("CTC"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tpinfer::test
