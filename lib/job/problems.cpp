#include "job/problems.hpp"

#include <algorithm>
#include <tuple>

namespace tpinfer {

int Problems::add_file(std::string name, std::string text) {
  sources_.push_back({std::move(name), std::move(text), {}, true});
  return static_cast<int>(sources_.size()) - 1;
}

int Problems::add_label(std::string name, std::string own_key) {
  sources_.push_back({std::move(name), {}, std::move(own_key), false});
  return static_cast<int>(sources_.size()) - 1;
}

void Problems::add(const Place& place, std::string_view key, std::string_view message) {
  if (full()) {
    ++dropped_;
    return;
  }
  items_.push_back({place, std::string(key), std::string(message)});
}

std::string Problems::line_of(const Item& item) const {
  const Source& source = sources_.at(static_cast<std::size_t>(item.place.source));
  std::string out = source.name;
  if (source.has_lines) {
    std::size_t begin = 0;  // of the line
    for (int line = 0; line < item.place.line; ++line) {
      const auto end = source.text.find('\n', begin);
      if (end == std::string::npos) break;
      begin = end + 1;
    }
    // characters, not bytes: what an editor shows
    const auto end = std::min(begin + static_cast<std::size_t>(item.place.column), source.text.size());
    const auto first = source.text.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end));
    const auto column = std::count_if(first, source.text.begin() + static_cast<std::ptrdiff_t>(end),
                                      [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
    out += fmt::format(":{}:{}: error", item.place.line + 1, column + 1);
  }
  if (!item.key.empty() && item.key != source.own_key) out += ": " + item.key;
  return out + ": " + item.message;
}

std::vector<std::string> Problems::lines() const {
  std::vector<Item> sorted = items_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Item& a, const Item& b) {
    return std::tie(a.place.source, a.place.line, a.place.column) <
           std::tie(b.place.source, b.place.line, b.place.column);
  });
  std::vector<std::string> out;
  for (const Item& item : sorted) out.push_back(line_of(item));
  if (dropped_) out.push_back(fmt::format("{}: and {} more errors", sources_.front().name, dropped_));
  return out;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::size_t length = std::min(text.size(), kMost);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) --length;
  std::string out = "\"";
  for (const char c : text.substr(0, length)) {
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + (length < text.size() ? "...\"" : "\"");
}

std::string either(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

}  // namespace tpinfer
