#include "model/config_reader.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace tpinfer {

ConfigReader::ConfigReader(const Json& object, std::string file, std::string prefix)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (!object.is_object()) fail_input("{}: a JSON object is needed, found {}", file_, object.type_name());
}

const Json* ConfigReader::look(std::string_view path) const {
  const Json* value = object_;
  for (std::string_view rest = path; value;) {
    const auto dot = std::min(rest.find('.'), rest.size());
    const auto at = value->is_object() ? value->find(rest.substr(0, dot)) : value->end();
    value = at == value->end() || at->is_null() ? nullptr : &*at;
    if (dot == rest.size()) break;
    rest.remove_prefix(dot + 1);
  }
  return value;
}

const Json* ConfigReader::find(std::string_view key) const { return look(spelling(key)); }

std::string_view ConfigReader::spelling(std::string_view key) const {
  for (std::string_view rest = key; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('|'));
    if (look(word)) return word;
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  return key.substr(0, key.find('|'));
}

bool ConfigReader::has(std::string_view key) const { return find(key) != nullptr; }

std::int64_t ConfigReader::count(std::string_view key) const {
  const Json* value = find(key);
  if (!value) fail_input("{}: {} is missing", file_, name(key));
  if (!value->is_number_integer() || (!value->is_number_unsigned() && value->get<std::int64_t>() < 1) ||
      value->get<std::uint64_t>() < 1 || value->get<std::uint64_t>() > (std::uint64_t{1} << 40))
    fail_input("{}: {} must be a whole number of at least 1, found {}", file_, name(key), value->dump());
  return value->get<std::int64_t>();
}

std::int64_t ConfigReader::count_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? count(key) : fallback;
}

double ConfigReader::number(std::string_view key) const {
  const Json* value = find(key);
  if (!value) fail_input("{}: {} is missing", file_, name(key));
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    fail_input("{}: {} must be a number, found {}", file_, name(key), value->dump());
  return value->get<double>();
}

double ConfigReader::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool ConfigReader::flag_or(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) fail_input("{}: {} must be true or false, found {}", file_, name(key), value->dump());
  return value->get<bool>();
}

std::string ConfigReader::text_or(std::string_view key, std::string fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) fail_input("{}: {} must be a string, found {}", file_, name(key), value->dump());
  return value->get<std::string>();
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) fail_input("{}: {} must be an object, found {}", file_, name(key), value->dump());
  return ConfigReader(*value, file_, name(key) + ".");
}

}  // namespace tpinfer
