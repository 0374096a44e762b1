#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <string_view>

#include "text/tokenizer.hpp"

namespace tpinfer::test {

inline double cpu_seconds(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t before = std::clock();
  const auto ids = tokenizer.encode(text, false);
  EXPECT_LE(tokenizer.decode(ids, false).size(), 4 * text.size() + 1);
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

// Ten times the text may take twenty times as long; what takes time n^2 takes 100 times. Short times are noise.
inline void expect_linear(const Tokenizer& tokenizer, const std::string& what, const std::string& text) {
  constexpr double kNoise = 0.05;
  std::size_t part = text.size() / 10;
  while ((static_cast<unsigned char>(text[part]) & 0xC0) == 0x80) ++part;
  double shorter = 0, longer = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {  // a busy machine
    longer = cpu_seconds(tokenizer, text);
    if (longer < 20 * kNoise) return;
    shorter = cpu_seconds(tokenizer, text.substr(0, part));
    if (longer < 20 * std::max(shorter, kNoise)) return;
  }
  ADD_FAILURE() << what << ": " << text.size() << " bytes take " << longer << " s, a tenth of them " << shorter;
}

inline std::string repeated(std::string_view part, std::size_t size) {
  std::string text;
  while (text.size() + part.size() <= size) text += part;
  return text;
}

inline void expect_linear_on_one_character(const Tokenizer& tokenizer, const std::string& what, std::size_t size) {
  for (const std::string_view c : {"a", " ", "1", "\n", "\xE5\xAD\x97"})
    expect_linear(tokenizer, what + " on \"" + std::string(c) + "\"", repeated(c, size));
}

}  // namespace tpinfer::test
