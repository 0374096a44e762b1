#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// `text` with what a terminal would act upon made visible: control characters as their pictures (U+2400 and on), but
/// line ends and tabs as they are.
std::string printable(std::string_view text);

/// `text` in one line of at most `width` terminal cells: white space runs as one space, the rest cut with "…".
std::string one_line(std::string_view text, std::size_t width);

/// Columns for people: the first left-aligned, the others right-aligned, widths as the cells need.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Head and rows, a line each.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tpinfer
