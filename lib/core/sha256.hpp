#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tpinfer {

/// SHA-256 (FIPS 180-4) of bytes that come piece by piece; by the processor's own instructions where it has them.
class Sha256 {
 public:
  Sha256() : Sha256(true) {}
  /// `accelerated`: false for the plain arithmetic.
  explicit Sha256(bool accelerated);

  void update(std::span<const std::byte> bytes);
  /// 64 small hexadecimal digits. No update() after this.
  std::string hex();

 private:
  void blocks(const std::byte* data, std::size_t count);

  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> rest_{};  ///< of the block that is not full yet
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;  ///< bytes
  bool accelerated_;
};

}  // namespace tpinfer
