#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"

namespace tpinfer::test {

using Ids = std::vector<std::int32_t>;

struct RealTokenizer {
  std::string name;
  std::string file;  ///< below the shared folder; "": made by its script, which takes seconds
};

/// The tokenizers of real models that golden/tokenizers has results of.
const std::vector<RealTokenizer>& real_tokenizers();

/// Loaded once; null, with the reason, where it is absent. One that a script must make is made in long tests
/// (TPINFER_LONG_TESTS=1) alone and kept in the folder for temporary files.
const Tokenizer* real_tokenizer(const std::string& name, std::string& reason);

/// The rest of the test's name for a tokenizer.
std::string test_name(const std::string& name);

}  // namespace tpinfer::test
