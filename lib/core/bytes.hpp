#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"

namespace tpinfer {

/// Flat encoding of values that cross ranks (plan, job, steps, rows): fixed-width numbers, length-prefixed strings and
/// lists, one byte order.
class ByteWriter {
 public:
  ByteWriter() = default;
  /// Writes into `reuse`, whose content goes and whose memory stays.
  explicit ByteWriter(std::vector<std::byte> reuse) : bytes_(std::move(reuse)) { bytes_.clear(); }

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
  }
  void put(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), p, p + text.size());
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(std::span<const T> list) {
    put(static_cast<std::uint64_t>(list.size()));
    const auto* p = reinterpret_cast<const std::byte*>(list.data());
    bytes_.insert(bytes_.end(), p, p + list.size_bytes());
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(std::span<const T>(list));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what ByteWriter wrote, in the same order; Error(internal) when the bytes end early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> T get() {
    if constexpr (std::is_same_v<T, bool>) {
      return get<std::uint8_t>() != 0;  // another byte would be no bool
    } else {
      T value;
      std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
      return value;
    }
  }
  std::string get_string() {
    const auto raw = take(get<std::uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  template <class T>
  std::vector<T> get_list() {
    std::vector<T> list;
    get_list(list);
    return list;
  }
  /// Into `list`, reusing its memory.
  template <class T>
  void get_list(std::vector<T>& list) {
    const auto count = get<std::uint64_t>();
    if (count > bytes_.size() / sizeof(T)) too_short();
    const auto raw = take(count * sizeof(T));
    list.resize(count);
    if (count) std::memcpy(list.data(), raw.data(), raw.size());
  }
  /// A list of bytes where it lies.
  template <class T>
  requires(sizeof(T) == 1) std::span<const T> view() {
    const auto raw = take(get<std::uint64_t>());
    return {reinterpret_cast<const T*>(raw.data()), raw.size()};
  }
  bool done() const { return bytes_.empty(); }

 private:
  [[noreturn]] static void too_short() { throw Error(ExitCode::internal, "an encoded message ends early"); }
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size()) too_short();
    const auto part = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return part;
  }
  std::span<const std::byte> bytes_;
};

/// 64-bit XXH3 of the bytes.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0) noexcept;

}  // namespace tpinfer
