#include "job/document.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tpinfer {
namespace {

// Ends the parse; thrown through yaml-cpp.
struct Stop {
  Place place;
  std::string message;
};

// Builds the tree from events, so that nothing is ever expanded and every place is known.
class Builder final : public YAML::EventHandler {
 public:
  Builder(int source, Problems& problems) : source_(source), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    place_node(Node::null_at(at(mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    place_node(Node::null_at(at(mark)));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    const bool text = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!text) refuse_tag(mark, tag);
    place_node(Node::scalar_at(at(mark), value, text));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::mapping);
  }
  void OnMapEnd() override { close(); }

  Node take_root() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    bool has_key = false;
    std::string key;
    Place key_place;
    std::unordered_set<std::string> seen;
  };

  Place at(const YAML::Mark& mark) const { return {source_, std::max(0, mark.line), std::max(0, mark.column)}; }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor)
      problems_.add(at(mark), {},
                    "anchors and aliases (&name, *name) are not read in a job file (write the value out)");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      problems_.add(at(mark), {}, fmt::format("the tag {} is not read in a job file (leave it out)", shown(tag)));
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    if (stack_.size() >= static_cast<std::size_t>(DocumentLimits::kMaxDepth))
      throw Stop{at(mark), fmt::format("nested deeper than {} levels", DocumentLimits::kMaxDepth)};
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (!stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().has_key) bad_key(at(mark));
    stack_.emplace_back();
    stack_.back().node.kind = kind;
    stack_.back().node.place = at(mark);
  }
  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    place_node(std::move(node));
  }
  [[noreturn]] static void bad_key(const Place& place) {
    throw Stop{place, "a key must be plain text (or a '[' or '{' here lacks its end)"};
  }

  void place_node(Node node) {
    if (++count_ > DocumentLimits::kMaxValues)
      throw Stop{node.place, fmt::format("more than {} values", DocumentLimits::kMaxValues)};
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.node.is_sequence()) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.has_key) {
      if (!node.is_scalar()) bad_key(node.place);
      frame.key = std::move(node.text);
      frame.key_place = node.place;
      frame.has_key = true;
    } else {
      frame.has_key = false;
      // yaml-cpp puts the null of `key:` where the next key stands
      if (node.is_null()) node.place = frame.key_place;
      add_entry(frame, std::move(node));
    }
  }
  void add_entry(Frame& frame, Node node) {
    if (frame.seen.insert(frame.key).second) {
      frame.node.entries.push_back({std::move(frame.key), frame.key_place, std::move(node)});
      return;
    }
    const auto* first = problems_.full() ? nullptr : frame.node.find(frame.key);
    problems_.add(frame.key_place, {},
                  fmt::format("the key {} occurs twice in one mapping, first in line {} (keep one)", shown(frame.key),
                              first ? first->place.line + 1 : 0));
  }

  int source_;
  Problems& problems_;
  Node root_;
  std::vector<Frame> stack_;
  int count_ = 0;
};

// Length of the UTF-8 character at `at`, 0 when it is none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned b = byte(at);
  if (b < 0x80) return 1;
  const std::size_t length = b >= 0xc2 && b <= 0xdf ? 2 : b >= 0xe0 && b <= 0xef ? 3 : b >= 0xf0 && b <= 0xf4 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0U) != 0x80U) return 0;
  const unsigned second = byte(at + 1);  // overlong forms, surrogates, beyond U+10FFFF
  if ((b == 0xe0 && second < 0xa0) || (b == 0xed && second > 0x9f) || (b == 0xf0 && second < 0x90) ||
      (b == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

// What yaml-cpp would take silently, or not survive: bytes that are no text.
bool check_characters(std::string_view text, int source, Problems& problems) {
  Place place{source, 0, 0};
  if (text.starts_with("\x89HDF")) {
    problems.add(place, {}, "is an HDF5 file, a job file is needed (tpinfer show FILE shows a result)");
    return false;
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      problems.add(place, {}, fmt::format("not valid UTF-8: byte 0x{:02x} (save the file as UTF-8)", unsigned{byte}));
      return false;
    }
    if (byte < 0x20 && byte != '\t' && byte != '\n') {
      problems.add(place, {}, fmt::format("holds the control character 0x{:02x}, which no text has", unsigned{byte}));
      return false;
    }
    i += length;
    place.column += static_cast<int>(length);
    if (byte == '\n') place = {source, place.line + 1, 0};
  }
  return true;
}

// JSON's "\ud83d\ude00" as YAML's "\U0001f600", which yaml-cpp can read.
std::string join_surrogates(std::string_view text) {
  const auto escape = [&](std::size_t at) -> unsigned {
    if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return 0;
    unsigned value = 0;
    for (const char c : text.substr(at + 2, 4)) {
      const auto digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
      if (digit == std::string_view::npos) return 0;
      value = value * 16 + static_cast<unsigned>(digit);
    }
    return value;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const unsigned high = escape(i);
    const unsigned low = escape(i + 6);
    if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
      out += fmt::format("\\U{:08x}", 0x10000U + ((high - 0xd800U) << 10) + (low - 0xdc00U));
      i += 12;
    } else {
      const std::size_t step = text[i] == '\\' ? 2 : 1;  // never read the second half of an escaped backslash as one
      out += text.substr(i, step);
      i += step;
    }
  }
  return out;
}

// What the parser's words mean most of the time.
std::string_view yaml_hint(std::string_view message) {
  static constexpr std::pair<std::string_view, std::string_view> kHints[] = {
      {"end of map flow not found", " (before this place a { is not closed, or a comma is missing)"},
      {"end of sequence flow not found", " (before this place a [ is not closed, or a comma is missing)"},
      {"illegal EOF in scalar", " (a quotation mark is not closed)"},
      {"illegal map value",
       " (keys of one section begin in the same column, after blanks; a value with a colon and a blank "
       "in it needs quotation marks)"},
      {"illegal tab when looking for indentation", " (indent with blanks)"},
      {"end of map not found",
       " (keys of one section begin in the same column; a colon and a blank stand behind each)"},
  };
  const auto* found = std::ranges::find(kHints, message, [](const auto& hint) { return hint.first; });
  return found == std::end(kHints) ? std::string_view() : found->second;
}

std::optional<Node> parse_events(const std::string& text, int source, Problems& problems) {
  Builder builder(source, problems);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return Node::null_at({source, 0, 0});
    Node root = builder.take_root();
    Builder rest(source, problems);
    if (parser.HandleNextDocument(rest)) {
      problems.add(rest.take_root().place, {}, "a second document begins here, one is expected (remove the '---')");
      return std::nullopt;
    }
    return root;
  } catch (const Stop& stop) {
    problems.add(stop.place, {}, stop.message);
  } catch (const YAML::Exception& e) {
    problems.add({source, std::max(0, e.mark.line), std::max(0, e.mark.column)}, {},
                 fmt::format("not valid YAML: {}{}", e.msg, yaml_hint(e.msg)));
  } catch (const std::exception& e) {  // of the standard library, from inside the parser
    problems.add({source, 0, 0}, {}, fmt::format("not valid YAML: {}", e.what()));
  }
  return std::nullopt;
}

}  // namespace

Node::Entry* Node::find(std::string_view key) noexcept {
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return at == entries.end() ? nullptr : &*at;
}
const Node::Entry* Node::find(std::string_view key) const noexcept { return const_cast<Node*>(this)->find(key); }

std::string normal_text(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

std::optional<Node> parse_document(const std::string& text, bool json, int source, Problems& problems) {
  if (!check_characters(text, source, problems)) return std::nullopt;
  return parse_events(json ? join_surrogates(text) : text, source, problems);
}

Node node_from_json(const Json& json, const Place& place) {
  Node node = Node::null_at(place);
  if (json.is_object()) {
    node.kind = Node::Kind::mapping;
    for (const auto& [key, value] : json.items()) node.entries.push_back({key, place, node_from_json(value, place)});
  } else if (json.is_array()) {
    node.kind = Node::Kind::sequence;
    for (const auto& item : json) node.items.push_back(node_from_json(item, place));
  } else if (!json.is_null()) {
    node.kind = Node::Kind::scalar;
    node.quoted = json.is_string();
    node.text = json.is_string() ? json.get<std::string>() : json.dump();
  }
  return node;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::sequence: return "a list";
    case Node::Kind::mapping: return "a mapping";
    case Node::Kind::scalar: break;
  }
  const std::string text = shown(node.text);
  return node.quoted || node.text.empty() ? text : text.substr(1, text.size() - 2);
}

}  // namespace tpinfer
