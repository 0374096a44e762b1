#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace tpinfer {

/// Where a value stands: a source of Problems, line and column counted from 0 in bytes.
struct Place {
  int source = 0;
  int line = 0;
  int column = 0;
};

/// All complaints about a job, collected so that the user sees them in one go.
class Problems {
 public:
  /// A text with lines and columns; complaints read `NAME:LINE:COLUMN: error: KEY: MESSAGE`.
  int add_file(std::string name, std::string text);
  /// A source without lines, as `--set KEY` or `prompts.jsonl:17`; complaints read `NAME: KEY: MESSAGE`, or
  /// `NAME: MESSAGE` about `own_key` itself, which the name tells already.
  int add_label(std::string name, std::string own_key = {});

  /// `key` may be empty.
  void add(const Place& place, std::string_view key, std::string_view message);
  bool empty() const noexcept { return items_.empty(); }
  /// No further complaint will be shown: costly searches for a hint may be left out.
  bool full() const noexcept { return items_.size() >= kMost; }
  /// One complaint a line, in the order of the sources and of the places in them.
  std::vector<std::string> lines() const;

 private:
  static constexpr std::size_t kMost = 100;
  struct Source {
    std::string name;
    std::string text;
    std::string own_key;
    bool has_lines;
  };
  struct Item {
    Place place;
    std::string key;
    std::string message;
  };
  std::string line_of(const Item& item) const;

  std::vector<Source> sources_;
  std::vector<Item> items_;
  std::size_t dropped_ = 0;
};

/// `text` in quotes for a message: control characters escaped, at most about 60 bytes of it.
std::string shown(std::string_view text);

/// "a, b or c".
std::string either(const std::vector<std::string>& words);

}  // namespace tpinfer
