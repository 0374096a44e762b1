#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tpinfer {

/// `text` as it may stand between tags and in quoted attributes: the five characters of markup escaped, control
/// characters as their pictures (U+2400 and on) but for line ends and tabs, what is no UTF-8 as U+FFFD.
std::string escaped(std::string_view text);

/// `text` in one line of at most `characters`: white space runs as one space, the rest cut with "…". Not yet escaped.
std::string shortened(std::string_view text, std::size_t characters);

/// A piece of a page. All that comes from outside gets into one through html(), which escapes it.
class Html {
 public:
  Html() = default;
  explicit Html(std::string markup) : markup_(std::move(markup)) {}
  const std::string& markup() const noexcept { return markup_; }
  Html& operator+=(const Html& more) {
    markup_ += more.markup_;
    return *this;
  }

 private:
  std::string markup_;
};

/// What a value becomes in html(): markup as it is, numbers as they are, any text escaped.
template <class T>
auto html_argument(const T& value) {
  if constexpr (std::is_same_v<T, Html>)
    return std::string_view(value.markup());
  else if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return escaped(value);
}
template <class T>
using HtmlArgument = decltype(html_argument(std::declval<const T&>()));

/// html("<p>{} of {}</p>", name, 5): `form` is markup, the values are no markup unless they are Html.
template <class... Args>
Html html(fmt::format_string<HtmlArgument<Args>...> form, const Args&... args) {
  return Html(
      fmt::vformat(form, fmt::make_format_args(static_cast<const HtmlArgument<Args>&>(html_argument(args))...)));
}

/// A table that scrolls by itself where the page is narrow.
class HtmlTable {
 public:
  /// `left`: columns from the left that hold texts, and the last one when `text_last`; the others hold numbers and are
  /// aligned right.
  explicit HtmlTable(const std::vector<std::string>& head, std::size_t left = 1, bool text_last = false);
  void row(const std::vector<Html>& cells);
  /// Of texts, which are escaped.
  void row(const std::vector<std::string>& cells);
  bool empty() const noexcept { return rows_ == 0; }
  Html done() const;

 private:
  void cell(const Html& content, std::size_t column, const char* tag);

  Html body_;
  std::size_t left_;
  std::size_t last_;  ///< column that holds texts too
  std::size_t rows_ = 0;
};

/// A summary that opens to show `content`.
Html folded(std::string_view summary, const Html& content);
/// A paragraph in a quiet colour.
Html note(std::string_view text);

}  // namespace tpinfer
