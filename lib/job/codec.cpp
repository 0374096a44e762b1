#include "job/codec.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/units.hpp"
#include "job/paths.hpp"

namespace tpinfer {
namespace {

bool is_digits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "010": 8 in YAML 1.1, 10 in YAML 1.2.
bool has_leading_zero(std::string_view s) {
  if (s.starts_with('-')) s.remove_prefix(1);
  return s.size() > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9';
}

bool is_integer(std::string_view s) { return is_digits(s.starts_with('-') ? s.substr(1) : s); }

std::string range(const std::string& kind, const std::string& least, const std::string& most, bool above) {
  if (least.empty()) return kind;
  const std::string low = fmt::format("{} {} {}", kind, above ? "above" : most.empty() ? "of at least" : "from", least);
  return most.empty() ? low : low + (above ? " and at most " : " to ") + most;
}

bool leading_zero_fault(ReadContext& c, const Node& node) {
  return c.fail(node, fmt::format("{} begins with a zero, which some readers take for base 8 (write it without)",
                                  describe(node)));
}

bool is_null_word(std::string_view s) { return s == "null" || s == "true" || s == "false"; }

}  // namespace

bool Flag::read(ReadContext& c, const Node& node, bool& out) const {
  if (!node.is_plain() || (node.text != "true" && node.text != "false")) return c.must_be(node, "true or false", true);
  out = node.text == "true";
  return true;
}

bool Int::read(ReadContext& c, const Node& node, std::int64_t& out) const {
  const bool bounded = most != std::numeric_limits<std::int64_t>::max();
  const std::string what = range("a whole number", std::to_string(least), bounded ? std::to_string(most) : "", false);
  if (!node.is_plain() || !is_integer(node.text)) return c.must_be(node, what);
  if (has_leading_zero(node.text)) return leading_zero_fault(c, node);
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  if (fault != std::errc() || value < least || value > most) return c.must_be(node, what);
  out = value;
  return true;
}

bool IntOf::read(ReadContext& c, const Node& node, std::int64_t& out) const {
  std::vector<std::string> names;
  for (const std::int64_t value : values) {
    names.push_back(std::to_string(value));
    if (!node.is_plain() || node.text != names.back()) continue;
    out = value;
    return true;
  }
  return c.must_be(node, either(names));
}

bool Real::read(ReadContext& c, const Node& node, double& out) const {
  const bool low = least != std::numeric_limits<double>::lowest();
  const bool high = most != std::numeric_limits<double>::max();
  const std::string what =
      range("a number", low ? fmt::format("{}", least) : "", high ? fmt::format("{}", most) : "", above);
  if (!node.is_plain()) return c.must_be(node, what);
  if (has_leading_zero(node.text)) return leading_zero_fault(c, node);
  // from_chars would take nan, inf and hex too
  if (node.text.find_first_not_of("0123456789.eE+-") != std::string::npos) return c.must_be(node, what);
  double value = 0;
  const auto* last = node.text.data() + node.text.size();
  const auto [end, fault] = std::from_chars(node.text.data(), last, value);
  if (fault != std::errc() || end != last || !std::isfinite(value)) return c.must_be(node, what);
  if (value < least || value > most || (above && value == least)) return c.must_be(node, what);
  out = value == 0 ? 0 : value;  // -0 is 0
  return true;
}

bool Text::read(ReadContext& c, const Node& node, std::string& out) const {
  if (!node.is_scalar()) return c.must_be(node, "text");
  if (!node.quoted && is_null_word(node.text))
    return c.must_be(node, "text (in quotes, where the word itself is meant)");
  if (node.text.empty() && !may_be_empty) return c.must_be(node, "a text that is not empty");
  out = node.text;
  return true;
}

bool PathText::read(ReadContext& c, const Node& node, std::string& out) const {
  if (!node.is_scalar() || node.text.empty()) return c.must_be(node, "a path");
  if (!node.quoted && is_null_word(node.text))
    return c.must_be(node, "a path (in quotes, where the word itself is meant)");
  if (std::find(words.begin(), words.end(), node.text) != words.end()) {
    out = node.text;
    return true;
  }
  if (node.text.starts_with("~")) return c.fail(node, "\"~\" is not expanded in a path (write ${HOME} instead)");
  if (std::any_of(node.text.begin(), node.text.end(), [](char ch) { return static_cast<unsigned char>(ch) < 0x20; }))
    return c.fail(node, fmt::format("the path {} holds a control character", describe(node)));
  std::string fault;
  const auto expanded = expand_environment(node.text, fault);
  if (!expanded) return c.fail(node, fault);
  if (expanded->empty()) return c.fail(node, fmt::format("the path {} is empty once expanded", describe(node)));
  out = absolute_path(*expanded, c.base_folder);
  return true;
}

Json PathText::write(const std::string& value) const { return escape_environment(value); }

bool Size::read(ReadContext& c, const Node& node, std::uint64_t& out) const {
  const auto value = node.is_scalar() && !has_leading_zero(node.text) ? parse_size(node.text) : std::nullopt;
  if (!value || *value == 0) return c.must_be(node, "a size above zero such as 8GiB or 500MB");
  out = *value;
  return true;
}

Json Size::write(std::uint64_t value) const {
  static constexpr std::pair<const char*, int> kUnits[] = {{"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (const auto& [unit, shift] : kUnits)
    if (value >> shift << shift == value && value != 0) return fmt::format("{}{}", value >> shift, unit);
  return fmt::format("{}B", value);
}

bool Duration::read(ReadContext& c, const Node& node, double& out) const {
  const auto value = node.is_scalar() ? parse_duration(node.text) : std::nullopt;
  if (!value || *value < least || *value > kMost)
    return c.must_be(node, least > 0 ? fmt::format("a duration of at least {}s such as 90s or 3h30m", least)
                                     : "a duration such as 90s or 3h30m");
  out = *value;
  return true;
}

Json Duration::write(double value) const { return bare ? Json(value) : Json(fmt::format("{}s", value)); }

bool WeightType::read(ReadContext& c, const Node& node, DType& out) const {
  const auto dtype = node.is_scalar() ? dtype_from_name(node.text) : std::nullopt;
  if (!dtype || !is_weight_type(*dtype)) return c.must_be(node, "float32, float16 or bfloat16", true);
  out = *dtype;
  return true;
}

bool ShardText::read(ReadContext& c, const Node& node, std::string& out) const {
  const std::string_view text = node.text;
  const auto slash = text.find('/');
  const bool pair =
      slash != std::string_view::npos && is_digits(text.substr(0, slash)) && is_digits(text.substr(slash + 1));
  if (!node.is_scalar() || (!pair && text != "slurm_array")) return c.must_be(node, "\"K/N\" or slurm_array");
  out = node.text;
  return true;
}

bool KvCache::read(ReadContext& c, const Node& node, KvCacheLimit& out) const {
  constexpr std::string_view kWhat = "auto, a size such as 4GiB, or tokens such as 32768 or \"32768 tokens\"";
  if (!node.is_scalar()) return c.must_be(node, kWhat);
  std::string_view text = node.text;
  if (text == "auto") {
    out = {};
    return true;
  }
  if (has_leading_zero(text)) return leading_zero_fault(c, node);
  if (text.ends_with(" tokens")) text.remove_suffix(7);
  std::uint64_t tokens = 0;
  if (is_digits(text)) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (fault != std::errc() || tokens == 0 || tokens > (std::uint64_t{1} << 62)) return c.must_be(node, kWhat);
    out = {.bytes = {}, .tokens = tokens};
    return true;
  }
  const auto bytes = parse_size(node.text);
  if (!bytes || *bytes == 0) return c.must_be(node, kWhat);
  out = {.bytes = bytes, .tokens = {}};
  return true;
}

Json KvCache::write(const KvCacheLimit& value) const {
  if (value.bytes) return Size{}.write(*value.bytes);
  if (value.tokens) return *value.tokens;
  return "auto";
}

bool TimeLimitText::read(ReadContext& c, const Node& node, TimeLimit& out) const {
  if (node.is_null()) {
    out = {.automatic = false, .seconds = {}};
    return true;
  }
  if (node.is_scalar() && node.text == "auto") {
    out = {};
    return true;
  }
  double seconds = 0;
  c.also = "auto, null";
  const bool good = Duration{1}.read(c, node, seconds);
  c.also.clear();
  if (good) out = {.automatic = false, .seconds = seconds};
  return good;
}

Json TimeLimitText::write(const TimeLimit& value) const {
  if (value.automatic) return "auto";
  return value.seconds ? Duration{}.write(*value.seconds) : Json(nullptr);
}

bool LogitBiasMap::read(ReadContext& c, const Node& node, LogitBias& out) const {
  if (!node.is_mapping()) return c.must_be(node, "a mapping of token ids to numbers");
  LogitBias bias;
  bool good = true;
  const std::string key = c.key;
  for (const Node::Entry& entry : node.entries) {
    std::int64_t id = 0;
    double value = 0;
    c.key = key;
    const Node id_node = Node::scalar_at(entry.place, entry.key);
    good = Int{}.read(c, id_node, id) && good;
    c.key = key + "." + entry.key;
    good = Real{}.read(c, entry.value, value) && good;
    bias[id] = value;
  }
  c.key = key;
  if (good) out = std::move(bias);
  return good;
}

Json LogitBiasMap::write(const LogitBias& value) const {
  Json out = Json::object();
  for (const auto& [id, bias] : value) out[std::to_string(id)] = bias;
  return out;
}

std::optional<std::size_t> read_choice(ReadContext& c, const Node& node, std::span<const std::string_view> names) {
  const std::vector<std::string> words(names.begin(), names.end());
  if (node.is_scalar())
    if (const auto at = std::find(words.begin(), words.end(), node.text); at != words.end())
      return static_cast<std::size_t>(at - words.begin());

  c.must_be(node, either(words));
  return std::nullopt;
}

}  // namespace tpinfer
