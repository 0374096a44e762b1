#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace tpinfer {

/// Whether HDF5 stores `text` unchanged: valid UTF-8 without NUL (where a variable-length string would end).
bool is_storable_text(std::string_view text) noexcept;

/// `text` with NUL as U+2400 and each invalid byte as U+FFFD.
std::string storable_text(std::string_view text);

/// The C string to store for a text; a copy is made, and kept, only for a text that must change.
class StoredTexts {
 public:
  const char* operator()(const std::string& text) {
    if (is_storable_text(text)) return text.c_str();
    return changed_.emplace_back(storable_text(text)).c_str();
  }

 private:
  std::deque<std::string> changed_;
};

}  // namespace tpinfer
