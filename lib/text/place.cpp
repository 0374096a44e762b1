#include "text/place.hpp"

namespace tpinfer {

void Place::need(bool holds, std::string_view what) const {
  if (!holds) fail("must be {}, not {}", what, value_->is_null() ? "null" : value_->type_name());
}

std::optional<Place> Place::find(std::string_view key) const {
  need(value_->is_object(), "an object");
  const auto found = value_->find(std::string(key));
  if (found == value_->end() || found->is_null()) return std::nullopt;
  const bool at_root = name_.ends_with(".json") || name_.ends_with(".txt") || name_.ends_with(".model");
  return Place(*found, fmt::format("{}{}{}", name_, at_root ? ": " : ".", key));
}

Place Place::at(std::string_view key) const {
  auto found = find(key);
  if (!found) fail("the key \"{}\" is missing", key);
  return *std::move(found);
}

std::vector<Place> Place::items() const {
  need(value_->is_array(), "an array");
  std::vector<Place> list;
  list.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) list.emplace_back((*value_)[i], fmt::format("{}[{}]", name_, i));
  return list;
}

const std::string& Place::string() const {
  need(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

const std::string& Place::short_string(std::size_t most) const {
  const std::string& text = string();
  if (text.size() > most) fail("has {} bytes, more than {}", text.size(), most);
  return text;
}

bool Place::boolean() const {
  need(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

std::int64_t Place::integer(std::int64_t low, std::int64_t high) const {
  need(value_->is_number_integer(), "an integer");
  const bool too_large = value_->is_number_unsigned() && !std::in_range<std::int64_t>(value_->get<std::uint64_t>());
  const std::int64_t number = too_large ? high : value_->get<std::int64_t>();
  if (too_large || number < low || number > high)
    fail("the number {} is outside of {} to {}", value_->dump(), low, high);
  return number;
}

CodePoint Place::character() const {
  const std::string& text = string();
  const CodePoint first = text.empty() ? CodePoint{0, 0} : code_point_at(text, 0);
  if (text.empty() || first.size != text.size()) fail("must be one character, not \"{}\"", text);
  return first;
}

bool Place::boolean_or(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

std::string Place::string_or(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->string() : std::string(otherwise);
}

void Place::unsupported_type(std::string_view known) const {
  fail("the type \"{}\" is not supported (known are {})", type(), known);
}

}  // namespace tpinfer
