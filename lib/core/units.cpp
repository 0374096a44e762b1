#include "core/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace tpinfer {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// A plain decimal number at the front of `s` ("12", "1.5"), which it removes; no sign, exponent, nan or inf.
std::optional<double> take_number(std::string_view& s) {
  const auto end = std::min(s.find_first_not_of("0123456789."), s.size());
  if (end == 0 || s[0] == '.') return std::nullopt;
  double value = 0;
  const auto [ptr, ec] = std::from_chars(s.data(), s.data() + end, value);
  if (ec != std::errc() || ptr != s.data() + end) return std::nullopt;
  s.remove_prefix(end);
  return value;
}

std::string scaled(std::uint64_t bytes, double base, const std::array<const char*, 5>& units) {
  auto value = static_cast<double>(bytes);
  std::size_t k = 0;
  while (k + 1 < units.size() && value >= base) {
    value /= base;
    ++k;
  }
  return k == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[k]);
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  text = trim(text);
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  constexpr double kKiB = 1024;
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                                   {"B", 1},
                                                                   {"KiB", kKiB},
                                                                   {"MiB", kKiB * kKiB},
                                                                   {"GiB", kKiB * kKiB * kKiB},
                                                                   {"TiB", kKiB * kKiB * kKiB * kKiB},
                                                                   {"kB", 1e3},
                                                                   {"KB", 1e3},
                                                                   {"MB", 1e6},
                                                                   {"GB", 1e9},
                                                                   {"TB", 1e12},
                                                                   {"k", kKiB},
                                                                   {"K", kKiB},
                                                                   {"M", kKiB * kKiB},
                                                                   {"G", kKiB * kKiB * kKiB},
                                                                   {"T", kKiB * kKiB * kKiB * kKiB}};
  for (const auto& [unit, factor] : kUnits) {
    if (trim(text) != unit) continue;
    const double bytes = *number * factor;
    if (bytes > 9e18) return std::nullopt;
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
  return std::nullopt;
}

std::optional<double> parse_duration(std::string_view text) {
  text = trim(text);
  if (text.find(':') != std::string_view::npos) {  // HH:MM:SS or MM:SS
    double total = 0;
    int parts = 0;
    for (;;) {
      const auto value = take_number(text);
      if (!value || ++parts > 3) return std::nullopt;
      total = total * 60 + *value;
      if (text.empty()) return parts >= 2 ? std::optional(total) : std::nullopt;
      if (text.front() != ':') return std::nullopt;
      text.remove_prefix(1);
    }
  }
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ms", 1e-3}, {"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
  double total = 0;
  bool any = false;
  while (!text.empty()) {
    const auto value = take_number(text);
    if (!value) return std::nullopt;
    if (text.empty()) return any ? std::nullopt : std::optional(*value);  // a bare number is seconds
    bool known = false;
    for (const auto& [unit, factor] : kUnits) {
      if (!text.starts_with(unit)) continue;
      total += *value * factor;
      text.remove_prefix(unit.size());
      known = any = true;
      break;
    }
    if (!known) return std::nullopt;
    text = trim(text);
  }
  return any ? std::optional(total) : std::nullopt;
}

std::string format_bytes(std::uint64_t bytes) { return scaled(bytes, 1000, {"B", "kB", "MB", "GB", "TB"}); }
std::string format_bytes_binary(std::uint64_t bytes) { return scaled(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}); }

std::string format_clock(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::max(0.0, seconds));
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

}  // namespace tpinfer
