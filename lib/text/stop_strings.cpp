#include "text/stop_strings.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace tpinfer {

StopStrings::StopStrings(std::span<const std::string> strings) {
  if (strings.empty()) return;
  std::size_t bytes = 0;
  for (const std::string& text : strings) {
    if (text.empty())
      throw Error(ExitCode::usage, "a stop string is empty, so every answer would be", "leave it out of sampling.stop");
    bytes += text.size();
  }
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max() - 1;
  if (bytes > kMost)
    throw Error(ExitCode::usage,
                fmt::format("the stop strings of a prompt have {} bytes, at most {} are possible", bytes, kMost));
  auto nodes = std::make_shared<Nodes>(1);
  for (const std::string& text : strings) add(*nodes, text);
  link(*nodes);
  nodes_ = std::move(nodes);
}

std::int32_t StopStrings::child(const Nodes& nodes, std::int32_t node, char byte) {
  std::int32_t at = nodes[static_cast<std::size_t>(node)].first_child;
  while (at >= 0 && nodes[static_cast<std::size_t>(at)].byte != byte) at = nodes[static_cast<std::size_t>(at)].sibling;
  return at;
}

// The node of the longest end of (what `node` stands for, then `byte`) that is in the trie.
std::int32_t StopStrings::next(const Nodes& nodes, std::int32_t node, char byte) {
  while (true) {
    const std::int32_t found = child(nodes, node, byte);
    if (found >= 0) return found;
    if (node == 0) return 0;
    node = nodes[static_cast<std::size_t>(node)].shorter;
  }
}

void StopStrings::add(Nodes& nodes, std::string_view text) {
  std::int32_t node = 0;
  for (const char byte : text) {
    std::int32_t at = child(nodes, node, byte);
    if (at < 0) {
      at = static_cast<std::int32_t>(nodes.size());
      nodes.push_back({.sibling = nodes[static_cast<std::size_t>(node)].first_child, .byte = byte});
      nodes[static_cast<std::size_t>(node)].first_child = at;
    }
    node = at;
  }
  nodes[static_cast<std::size_t>(node)].stop = static_cast<std::int32_t>(text.size());
}

// Breadth first, as the suffix of a node is shorter than the node.
void StopStrings::link(Nodes& nodes) {
  std::vector<std::int32_t> queue{0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::int32_t parent = queue[i];
    const std::int32_t shorter = nodes[static_cast<std::size_t>(parent)].shorter;
    for (std::int32_t at = nodes[static_cast<std::size_t>(parent)].first_child; at >= 0;
         at = nodes[static_cast<std::size_t>(at)].sibling) {
      Node& node = nodes[static_cast<std::size_t>(at)];
      node.shorter = parent == 0 ? 0 : next(nodes, shorter, node.byte);
      // a stop string that is the whole node is longer than any that is a suffix of it
      if (node.stop == 0) node.stop = nodes[static_cast<std::size_t>(node.shorter)].stop;
      queue.push_back(at);
    }
  }
}

const std::optional<StopStrings::Match>& StopStrings::push(std::string_view piece) {
  if (nodes_ == nullptr || match_) return match_;
  for (const char byte : piece) {
    node_ = next(*nodes_, node_, byte);
    ++length_;
    if (const std::int32_t stop = (*nodes_)[static_cast<std::size_t>(node_)].stop; stop > 0) {
      match_ = Match{length_ - static_cast<std::size_t>(stop), length_};
      break;
    }
  }
  return match_;
}

std::optional<StopStrings::Match> StopStrings::find(std::string_view text) const {
  StopStrings fresh;
  fresh.nodes_ = nodes_;
  return fresh.push(text);
}

}  // namespace tpinfer
