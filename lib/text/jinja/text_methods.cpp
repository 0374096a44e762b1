#include <algorithm>

#include "text/jinja/interpreter.hpp"
#include "text/jinja/python_text.hpp"
#include "text/jinja/text_parts.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

using Strip = std::string_view (*)(std::string_view) noexcept;
using StripSet = std::string_view (*)(std::string_view, std::string_view) noexcept;

// strip, lstrip and rstrip differ in the ends that they strip.
template <bool kBegin, bool kEnd>
Value strip_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  std::string_view text = plain_text(self);
  if (!bound.given(0)) {
    interpreter.budget().work(text.size());
    if (kBegin) text = strip_begin(text);
    if (kEnd) text = strip_end(text);
  } else {
    const std::string& set = bound.text(0);
    interpreter.budget().work(4 * text.size() * (set.size() + 1));
    if (kBegin) text = strip_begin(text, set);
    if (kEnd) text = strip_end(text, set);
  }
  return make_text(std::string(text), interpreter.budget());
}

template <bool kFromEnd>
Value split_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  Budget& budget = interpreter.budget();
  const std::string& text = plain_text(self);
  const Int most = bound.number(1, -1);
  std::vector<std::string_view> parts;
  if (bound.given(0)) {
    const std::string& separator = bound.text(0);
    if (separator.empty()) fail("empty separator");
    budget.work(kFromEnd ? text.size() * separator.size() : text.size());
    parts = kFromEnd ? split_from_end(text, separator, most) : split(text, separator, most);
  } else {
    budget.work(text.size());
    parts = kFromEnd ? split_space_from_end(text, most) : split_space(text, most);
  }
  return text_list(parts, budget);
}

Value splitlines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  if (bound.flag(0)) fail("splitlines(keepends=True) is not supported");
  interpreter.budget().work(plain_text(self).size());
  return text_list(split_lines(plain_text(self)), interpreter.budget());
}

// startswith and endswith take a text or a tuple of texts.
template <bool kEnd>
Value affix_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound(kEnd ? "endswith" : "startswith", arguments, {"prefix"}, 1);
  const std::string_view text = plain_text(self);
  const auto matches = [text](const Value& affix) {
    return kEnd ? text.ends_with(plain_text(affix)) : text.starts_with(plain_text(affix));
  };
  interpreter.budget().work();
  if (const Tuple* choices = bound[0]->as_tuple())
    return Value(std::any_of(choices->items.begin(), choices->items.end(), matches));
  return Value(matches(*bound[0]));
}

Value replace_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  const Int most = bound.number(2, -1);
  return Value(replace_text(plain_text(self), bound.text(0), bound.text(1), most, interpreter.budget()));
}

template <std::string (*kMap)(std::string_view)>
Value map_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  return make_text(kMap(plain_text(self)), interpreter.budget());
}

enum class Absent { minus_one, error };

// find, rfind, index, rindex: the place in characters.
template <bool kFromEnd, Absent kAbsent>
Value find_method_of(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub"}, 1);
  const std::string& text = plain_text(self);
  const std::string& part = bound.text(0);
  interpreter.budget().work(kFromEnd ? text.size() * (part.size() + 1) : text.size());
  const std::size_t at = kFromEnd ? text.rfind(part) : find_text(text, part, 0);
  if (at != std::string::npos)
    return Value::integer(static_cast<Int>(character_count(std::string_view(text).substr(0, at))));
  if (kAbsent == Absent::error) fail("substring not found");
  return Value::integer(-1);
}

Value count_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub"}, 1);
  const std::string& text = plain_text(self);
  const std::string& part = bound.text(0);
  interpreter.budget().work(text.size());
  if (part.empty()) return Value::integer(static_cast<Int>(character_count(text)) + 1);
  return Value::integer(static_cast<Int>(split(text, part, -1).size()) - 1);
}

Value join_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  Output out(interpreter.budget());
  bool first = true;
  const auto cursor = make_cursor(*bound[0], interpreter.budget());
  for (Value item; cursor->next(item); first = false) {
    if (!item.as_text()) fail("sequence item: expected str instance, {} found", type_name(item));
    if (!first) out.append(plain_text(self));
    out.append(item.as_text()->bytes);
  }
  return Value(out.take());
}

template <bool kEnd>
Value remove_affix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound(kEnd ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  std::string_view text = plain_text(self);
  const std::string& affix = bound.text(0);
  if (kEnd && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!kEnd && text.starts_with(affix)) text.remove_prefix(affix.size());
  return make_text(std::string(text), interpreter.budget());
}

template <bool kFromEnd>
Value partition_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const std::string& text = plain_text(self);
  const std::string& separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  Budget& budget = interpreter.budget();
  budget.work(kFromEnd ? text.size() * separator.size() : text.size());
  const std::size_t at = kFromEnd ? text.rfind(separator) : find_text(text, separator, 0);
  std::vector<Value> parts;
  if (at == std::string::npos) {
    parts = {Value(std::string()), Value(std::string()), Value(std::string())};
    parts[kFromEnd ? 2 : 0] = make_text(text, budget);
  } else {
    parts = {make_text(text.substr(0, at), budget), Value(separator),
             make_text(text.substr(at + separator.size()), budget)};
  }
  return make_tuple(std::move(parts), budget);
}

// True when there is a character and all of them are of the kind.
template <bool (*kIs)(char32_t)>
Value all_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  const std::string& text = plain_text(self);
  interpreter.budget().work(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (!kIs(next.value)) return Value(false);
    at += next.size;
  }
  return Value(!text.empty());
}

template <bool kUpper>
Value case_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  interpreter.budget().work(plain_text(self).size());
  return Value(has_case(plain_text(self), kUpper));
}

// Python's format() for {} and {0} and {name}, without conversions and format specifications.
Value format_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  return Value(format_braces(plain_text(self), arguments, interpreter.budget()));
}

constexpr std::pair<std::string_view, Callable::Function> kMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"replace", replace_method},
    {"upper", map_method<upper>},
    {"lower", map_method<lower>},
    {"title", map_method<title>},
    {"capitalize", map_method<capitalize>},
    {"find", find_method_of<false, Absent::minus_one>},
    {"rfind", find_method_of<true, Absent::minus_one>},
    {"index", find_method_of<false, Absent::error>},
    {"rindex", find_method_of<true, Absent::error>},
    {"count", count_method},
    {"join", join_method},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"isdigit", all_method<is_digit_character>},
    {"isalpha", all_method<is_alpha_character>},
    {"isalnum", all_method<is_alnum_character>},
    {"isspace", all_method<is_space_character>},
    {"isupper", case_method<true>},
    {"islower", case_method<false>},
    {"format", format_method},
};

}  // namespace

Method find_text_method(std::string_view name) {
  static constexpr std::string_view kRefused[] = {"casefold",    "center",    "encode",    "expandtabs", "format_map",
                                                  "isascii",     "isdecimal", "isnumeric", "istitle",    "isidentifier",
                                                  "isprintable", "ljust",     "maketrans", "rjust",      "swapcase",
                                                  "translate",   "zfill"};
  const auto found = std::ranges::find(kMethods, name, [](const auto& method) { return method.first; });
  if (found != std::end(kMethods)) return {MethodKind::usable, found->second};
  const bool refused = std::ranges::find(kRefused, name) != std::end(kRefused);
  return {refused ? MethodKind::refused : MethodKind::none, nullptr};
}

}  // namespace tpinfer::jinja
