// The bytes are a tokenizer.json. It must end in a sentence or in a tokenizer, whose ids and texts then must be sound.

#include "fuzz_folder.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  fuzz::write("tokenizer.json", fuzz::text_of(data, size));
  fuzz::may_refuse(ExitCode::input, [] {
    const Tokenizer tokenizer = Tokenizer::load(fuzz::folder());
    const auto ids = tokenizer.encode("the <s> e\xCC\x81\xE2\x96\x81 \xE5\xAD\x97 'LL 12,3\n\n  </s>x", true);
    for (const std::int32_t id : ids) fuzz::require(tokenizer.has_token(id));
    std::string pieces;
    IncrementalDecoder decoder(tokenizer, true);
    for (const std::int32_t id : ids) pieces += decoder.push(id);
    pieces += decoder.finish();
    fuzz::require(is_valid_utf8(pieces) && pieces == tokenizer.decode(ids, true));
  });
  return 0;
}
