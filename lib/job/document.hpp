#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "job/problems.hpp"

namespace tpinfer {

/// A YAML or JSON value with its place. Scalars stay text: what a plain `010` or `yes` means is for the reader of the
/// key to say.
struct Node {
  enum class Kind { null, scalar, sequence, mapping };
  struct Entry;

  Kind kind = Kind::null;
  Place place;
  std::string text = {};         // of a scalar
  bool quoted = false;           // a scalar that is text whatever it looks like
  std::vector<Node> items = {};  // of a sequence
  std::vector<Entry> entries;    // of a mapping, in order, keys distinct (an Entry is not complete here: no {})

  static Node null_at(const Place& place);
  static Node mapping_at(const Place& place);
  static Node scalar_at(const Place& place, std::string text, bool quoted = false);

  bool is_null() const noexcept { return kind == Kind::null; }
  bool is_scalar() const noexcept { return kind == Kind::scalar; }
  bool is_sequence() const noexcept { return kind == Kind::sequence; }
  bool is_mapping() const noexcept { return kind == Kind::mapping; }
  bool is_plain() const noexcept { return is_scalar() && !quoted; }
  Entry* find(std::string_view key) noexcept;
  const Entry* find(std::string_view key) const noexcept;
};

struct Node::Entry {
  std::string key;
  Place place;  // of the key
  Node value;
};

inline Node Node::null_at(const Place& place) { return {.kind = Kind::null, .place = place, .entries = {}}; }
inline Node Node::mapping_at(const Place& place) { return {.kind = Kind::mapping, .place = place, .entries = {}}; }
inline Node Node::scalar_at(const Place& place, std::string text, bool quoted) {
  return {.kind = Kind::scalar, .place = place, .text = std::move(text), .quoted = quoted, .entries = {}};
}

struct DocumentLimits {
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  static constexpr int kMaxDepth = 16;
  static constexpr int kMaxValues = 20000;
};

/// Without a UTF-8 byte order mark, and with \n for \r\n and \r.
std::string normal_text(std::string_view text);

/// Parses `text`, which is normal_text, as one YAML document (or JSON: `json` only adds surrogate pairs in \u escapes)
/// and reports to `problems` under `source`: invalid UTF-8, control characters, syntax, duplicate keys, anchors,
/// aliases and tags, nesting beyond the limit, a second document. Nothing when no value could be made of it; an empty
/// document is a null.
std::optional<Node> parse_document(const std::string& text, bool json, int source, Problems& problems);

/// The same tree from a parsed JSON value; every place is `place`.
Node node_from_json(const Json& json, const Place& place);

/// How a message names the value: null, 010, "text in quotes", a list, a mapping.
std::string describe(const Node& node);

}  // namespace tpinfer
