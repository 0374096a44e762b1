#include <algorithm>

#include "text/jinja/filters.hpp"
#include "text/jinja/python_text.hpp"
#include "text/jinja/text_parts.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja::filters {
namespace {

// str(value), which most filters of texts begin with; one that is marked safe stays so.
Text text_of(const Value& value, Budget& budget) {
  if (const Text* text = value.as_text()) return *text;
  return {str(value, budget)};
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("filter", arguments, {});
  const Text text = text_of(value, interpreter.budget());
  return make_text(kMap(text.bytes), interpreter.budget(), text.safe);
}

bool is_word_start(char32_t c) {
  return is_python_space(c) || c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<';
}

// The word with its first character in upper case, the others in lower case.
void append_word(std::string& out, std::string_view word) {
  if (word.empty()) return;
  const std::size_t size = code_point_at(word, 0).size;
  out += jinja::upper(word.substr(0, size));
  out += jinja::lower(word.substr(size));
}

}  // namespace

Value upper(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return mapped<jinja::upper>(interpreter, value, arguments);
}

Value lower(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return mapped<jinja::lower>(interpreter, value, arguments);
}

Value capitalize(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return mapped<jinja::capitalize>(interpreter, value, arguments);
}

Value title(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("title", arguments, {});
  const std::string text = str(value, interpreter.budget());
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (is_word_start(next.value)) {
      append_word(out, std::string_view(text).substr(begin, at - begin));
      out.append(text, at, next.size);
      begin = at + next.size;
    }
    at += next.size;
  }
  append_word(out, std::string_view(text).substr(begin));
  return make_text(std::move(out), interpreter.budget());
}

Value trim(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("trim", arguments, {"chars"});
  Budget& budget = interpreter.budget();
  const Text text = text_of(value, budget);
  if (!bound.given(0)) return make_text(std::string(strip(text.bytes)), budget, text.safe);
  const std::string& set = bound.text(0);
  budget.work(4 * text.bytes.size() * (set.size() + 1));
  return make_text(std::string(strip_end(strip_begin(text.bytes, set), set)), budget, text.safe);
}

Value replace(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  Budget& budget = interpreter.budget();
  const std::string old = str(*bound[0], budget), fresh = str(*bound[1], budget);
  return Value(replace_text(str(value, budget), old, fresh, bound.number(2, -1), budget));
}

Value indent(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  Budget& budget = interpreter.budget();
  Output margin(budget);
  if (bound[0] && bound[0]->as_text()) {
    margin.append(bound.text(0));
  } else {
    margin.append(static_cast<std::size_t>(std::clamp<Int>(bound.number(0, 4), 0, Int{1} << 40)), " ");
  }
  const std::string space = margin.take();
  const std::string text = plain_text(value) + "\n";
  budget.work(text.size());
  Output out(budget);
  if (bound.flag(1)) out.append(space);
  bool is_first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!is_first) out.append("\n");
    if (!is_first && (bound.flag(2) || !line.empty())) out.append(space);
    out.append(line);
    is_first = false;
  }
  return Value(out.take());
}

Value string(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return value.as_text() ? value : Value(str(value, interpreter.budget()));
}

Value safe(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return Value(std::make_shared<const Text>(Text{str(value, interpreter.budget()), true}));
}

Value escape(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  Output out(interpreter.budget());
  append_escaped(out, text_of(value, interpreter.budget()));
  return Value(std::make_shared<const Text>(Text{out.take(), true}));
}

Value tojson(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0);
  style.sort_keys = bound.flag(3);
  Output indent(interpreter.budget());
  if (bound.given(1)) {
    style.lines = true;
    style.item_separator = ",";
    if (bound[1]->as_text()) {
      indent.append(bound.text(1));
    } else {
      indent.append(static_cast<std::size_t>(std::clamp<Int>(bound.number(1, 0), 0, Int{1} << 40)), " ");
    }
    style.indent = indent.take();
  }
  if (bound.given(2)) {
    const auto* both = bound[2]->items();
    if (!both || both->size() != 2) fail("separators must be two texts");
    style.item_separator = plain_text((*both)[0]);
    style.key_separator = plain_text((*both)[1]);
  }
  Output out(interpreter.budget());
  append_json(out, value, style);
  return Value(out.take());
}

Value join(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  Budget& budget = interpreter.budget();
  const std::string between = bound[0] ? str(*bound[0], budget) : "";
  const AttributePath path(bound[1], budget);
  Output out(budget);
  bool is_first = true;
  const auto cursor = make_cursor(value, budget);
  for (Value item; cursor->next(item); is_first = false) {
    if (!is_first) out.append(between);
    append_str(out, path.of(interpreter, item));
  }
  return Value(out.take());
}

Value format(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("format with keyword arguments is not supported");
  Budget& budget = interpreter.budget();
  return Value(format_percent(value.as_text() ? plain_text(value) : str(value, budget),
                              make_tuple(arguments.positional, budget), budget));
}

}  // namespace tpinfer::jinja::filters
