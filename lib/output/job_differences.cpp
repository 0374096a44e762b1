#include "output/job_differences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tpinfer {
namespace {

constexpr std::array<std::string_view, 3> kSections{"model.", "prompts.", "sampling."};
// where things lie and how they are read
constexpr std::array<std::string_view, 5> kPlaces{"model.path", "model.load_strategy", "model.verify_weights",
                                                  "prompts.file", "prompts.format"};

using Values = std::vector<std::pair<std::string, std::string>>;

// resolved_yaml writes a key a line, two blanks further in for each section.
Values values_of(std::string_view yaml) {
  Values values;
  std::vector<std::string_view> path;
  while (!yaml.empty()) {
    const std::string_view line = yaml.substr(0, yaml.find('\n'));
    yaml.remove_prefix(std::min(yaml.size(), line.size() + 1));
    const std::size_t indent = line.find_first_not_of(' ');
    const std::size_t colon = line.find(':');
    if (indent == std::string_view::npos || colon == std::string_view::npos || indent / 2 > path.size()) continue;
    path.resize(indent / 2);
    path.push_back(line.substr(indent, colon - indent));
    if (colon + 2 < line.size()) values.emplace_back(fmt::format("{}", fmt::join(path, ".")), line.substr(colon + 2));
  }
  return values;
}

bool counts(const std::string& key) {
  return std::ranges::any_of(kSections, [&](std::string_view section) { return key.starts_with(section); }) &&
         std::ranges::find(kPlaces, key) == kPlaces.end();
}

}  // namespace

std::vector<std::string> job_differences(const std::string& a, const std::string& b) {
  std::vector<std::string> differences;
  const Values others = values_of(b);
  for (const auto& [key, value] : values_of(a)) {
    const auto other = std::ranges::find(others, key, &Values::value_type::first);
    if (counts(key) && other != others.end() && other->second != value)
      differences.push_back(fmt::format("{}: {} | {}", key, value, other->second));
  }
  return differences;
}

}  // namespace tpinfer
