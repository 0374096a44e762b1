#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/json.hpp"
#include "text/utf8.hpp"

namespace tpinfer {

/// As many steps as a normalizer, pre-tokenizer or decoder may have: each goes over the whole text.
inline constexpr std::size_t kMostSteps = 256;

/// A value inside a JSON file together with the words that name it ("FILE: pre_tokenizer.pretokenizers[2]"), so that
/// every complaint says where. All reading functions throw Error(input). The document must outlive its places.
class Place {
 public:
  Place(const Json& value, std::string name) : value_(&value), name_(std::move(name)) {}

  const Json& value() const { return *value_; }
  const std::string& name() const { return name_; }

  /// The member `key`, or nothing when it is absent or null. This value must be an object.
  std::optional<Place> find(std::string_view key) const;
  /// The member `key`, which must be there and not null.
  Place at(std::string_view key) const;
  /// The elements of an array.
  std::vector<Place> items() const;

  const std::string& string() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  /// A string of at most `most` bytes.
  const std::string& short_string(std::size_t most = 1024) const;
  /// A string of exactly one character.
  CodePoint character() const;

  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;

  /// The member "type" of a component.
  const std::string& type() const { return at("type").string(); }
  [[noreturn]] void unsupported_type(std::string_view known) const;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_input("{}: {}", name_, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  void need(bool holds, std::string_view what) const;

  const Json* value_;
  std::string name_;
};

}  // namespace tpinfer
