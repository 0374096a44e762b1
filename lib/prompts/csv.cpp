#include "prompts/csv.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

// The end of the quoted text that begins at `at` (after its quote): its closing quote, or npos.
std::size_t closing_quote(std::string_view text, std::size_t at) {
  for (;;) {
    at = text.find('"', at);
    if (at == std::string_view::npos || at + 1 == text.size() || text[at + 1] != '"') return at;
    at += 2;
  }
}

}  // namespace

bool CsvScanner::is_open_after(std::string_view line) {
  std::size_t at = 0;
  while (at <= line.size()) {
    if (!quoted_) {
      if (at == line.size() || line[at] != '"') {
        const std::size_t comma = line.find(',', at);
        if (comma == std::string_view::npos) return false;
        at = comma + 1;
        continue;
      }
      quoted_ = true;
      ++at;
    }
    const std::size_t end = closing_quote(line, at);
    if (end == std::string_view::npos) return true;
    quoted_ = false;
    const std::size_t comma = line.find(',', end + 1);
    if (comma == std::string_view::npos) return false;
    at = comma + 1;
  }
  return false;
}

std::vector<std::string> split_csv(std::string_view record, const std::string& where) {
  std::vector<std::string> fields;
  std::size_t at = 0;
  for (;;) {
    std::string& field = fields.emplace_back();
    std::size_t end = 0;
    if (at < record.size() && record[at] == '"') {
      const std::size_t close = closing_quote(record, at + 1);
      if (close == std::string_view::npos) fail_input("{}: a quote is opened and never closed", where);
      for (std::size_t i = at + 1; i < close; ++i) {
        field += record[i];
        if (record[i] == '"') ++i;  // a doubled one
      }
      end = close + 1;
      if (end < record.size() && record[end] != ',')
        fail_input("{}: text follows the closing quote of field {} (a quote inside a quoted field is doubled)", where,
                   fields.size());
    } else {
      end = std::min(record.find(',', at), record.size());
      field = record.substr(at, end - at);
    }
    if (end >= record.size()) return fields;
    at = end + 1;
  }
}

}  // namespace tpinfer
