#pragma once

#include <array>
#include <cstdint>

namespace tpinfer {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four random words from a counter
/// and a key, no state.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// What a draw depends on, and nothing else.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t prompt = 0;  ///< hash of the prompt's id
  std::uint32_t sample = 0;
  std::uint32_t position = 0;  ///< number of the new token, from 0
};

/// Uniform in [0, 1), 53 bits.
constexpr double uniform_draw(const DrawKey& key) noexcept {
  // seed is the key; the counter is the place: 64 bits of prompt, sample, position
  const auto words = philox4x32(
      {static_cast<std::uint32_t>(key.prompt), static_cast<std::uint32_t>(key.prompt >> 32), key.sample, key.position},
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace tpinfer
