#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// Tells whether the lines of a CSV record (RFC 4180) are complete: a quoted field may hold line ends.
class CsvScanner {
 public:
  /// Whether a quoted field is still open after this line.
  bool is_open_after(std::string_view line);

 private:
  bool quoted_ = false;
};

/// The fields of one record, quotes taken off. A quote inside a field that does not begin with one stands for itself.
/// Error(input), beginning with `where`, for text after a closing quote and for a quote that is never closed.
std::vector<std::string> split_csv(std::string_view record, const std::string& where);

}  // namespace tpinfer
