// For libFuzzer: the bytes are a tokenizer.json. Good seeds are those of tests/data/tokenizers. It must end in a
// sentence or in a tokenizer, whose ids and texts then must be sound.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace {

// In memory, and gone with the process's folder.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    std::string name = "/dev/shm/tpinfer-fuzz-XXXXXX";
    return std::filesystem::path(::mkdtemp(name.data()));
  }();
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  std::ofstream(folder() / "tokenizer.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const Tokenizer tokenizer = Tokenizer::load(folder());
    const auto ids = tokenizer.encode("the <s> e\xCC\x81\xE2\x96\x81 \xE5\xAD\x97 'LL 12,3\n\n  </s>x", true);
    for (const std::int32_t id : ids)
      if (!tokenizer.has_token(id)) __builtin_trap();
    std::string pieces;
    IncrementalDecoder decoder(tokenizer, true);
    for (const std::int32_t id : ids) pieces += decoder.push(id);
    pieces += decoder.finish();
    if (!is_valid_utf8(pieces) || pieces != tokenizer.decode(ids, true)) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) __builtin_trap();
  }
  return 0;
}
