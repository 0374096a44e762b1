#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.hpp"

namespace tpinfer::jinja {

/// A text in the making, counted against the budget before it grows.
class Output {
 public:
  explicit Output(Budget& budget) : budget_(budget) {}
  void append(std::string_view text) {
    budget_.make(text.size());
    text_ += text;
  }
  void append(std::size_t count, std::string_view text) {
    if (!text.empty() && count > kMost / text.size()) fail("the template makes too much text");
    budget_.make(count * text.size());
    for (; count > 0; --count) text_ += text;
  }
  std::size_t size() const noexcept { return text_.size(); }
  Budget& budget() noexcept { return budget_; }
  std::string take() { return std::move(text_); }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 40;
  Budget& budget_;
  std::string text_;
};

/// Python's str() and repr(). Functions, loops and iterators, whose text tells an address, fail.
void append_str(Output& out, const Value& value);
void append_repr(Output& out, const Value& value);
std::string str(const Value& value, Budget& budget);
std::string repr(const Value& value, Budget& budget);
std::string repr(double number);
std::string repr(Int number);

/// The text with & < > ' " as HTML has them; one that is marked safe stays as it is.
void append_escaped(Output& out, const Text& text);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool lines = false;  // each item on a line of its own
  std::string indent;  // of one level, with `lines`
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Python's json.dumps().
void append_json(Output& out, const Value& value, const JsonStyle& style);

}  // namespace tpinfer::jinja
