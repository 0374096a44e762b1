#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.hpp"

namespace tpinfer {

/// Typed look-ups in one JSON object of a model folder. Every complaint names the file and the key; null counts as
/// absent. A key "a|b" is the first of these names that is there,
/// "a.b" is b in the object a.
class ConfigReader {
 public:
  ConfigReader(const Json& object, std::string file, std::string prefix = {});

  bool has(std::string_view key) const;
  std::int64_t count(std::string_view key) const;  ///< required, 1 .. 2^40
  std::int64_t count_or(std::string_view key, std::int64_t fallback) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  std::optional<ConfigReader> object(std::string_view key) const;
  const Json* find(std::string_view key) const;

  const std::string& file() const { return file_; }
  std::string name(std::string_view key) const { return prefix_ + std::string(spelling(key)); }

 private:
  /// The one of the names in `key` that is there, else the first.
  std::string_view spelling(std::string_view key) const;
  const Json* look(std::string_view path) const;

  const Json* object_;
  std::string file_;
  std::string prefix_;
};

}  // namespace tpinfer
