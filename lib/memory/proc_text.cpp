#include "memory/proc_text.hpp"

#include <charconv>
#include <fstream>
#include <iterator>

namespace tpinfer {
namespace {

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace

std::optional<std::string> read_proc_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return std::nullopt;
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.empty() || (line[0] != ':' && line[0] != ' ' && line[0] != '\t')) continue;  // a longer key
    if (line[0] == ':') line.remove_prefix(1);
    line = strip(line);
    return whole_number(line.substr(0, line.find(' ')));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  text = strip(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tpinfer
