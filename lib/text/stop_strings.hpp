#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// Looks for the stop strings of one request in an answer's text, which comes in pieces.
///
/// The match that counts is the one whose last byte comes first; of those that end there, the longest. So the answer is
/// a function of the text alone: neither the borders of tokens nor the order of the strings matter. Hugging Face and
/// vLLM look after every token: they end the answer at the same token, and cut where this does, but when one token
/// completes several strings vLLM takes the first of the request's list (and Hugging Face cuts nothing).
///
/// The strings are shared between copies; each copy has a place of its own in its own text, of constant size.
class StopStrings {
 public:
  /// Bytes of the text, `end` being one past the last byte of the stop string.
  struct Match {
    std::size_t begin;
    std::size_t end;
    bool operator==(const Match&) const = default;
  };

  /// No strings: never a match. Error(usage) for an empty string, and for more than 2^31 - 2 bytes in all.
  explicit StopStrings(std::span<const std::string> strings = {});

  bool empty() const { return nodes_ == nullptr; }

  /// Goes on with the next `piece` of the text; time is proportional to its length. Returns match().
  const std::optional<Match>& push(std::string_view piece);

  /// The match in all that was pushed; what comes after the first one is not looked at.
  const std::optional<Match>& match() const { return match_; }

  /// The match in a whole text, without regard to what was pushed.
  std::optional<Match> find(std::string_view text) const;

 private:
  // A node of the trie of all strings, which stands for the bytes on the way to it (Aho and Corasick's automaton).
  struct Node {
    std::int32_t first_child = -1;
    std::int32_t sibling = -1;
    std::int32_t shorter = 0;  // of the longest proper suffix that is in the trie too
    std::int32_t stop = 0;     // bytes of the longest stop string that ends here, 0 when none does
    char byte = 0;
  };
  using Nodes = std::vector<Node>;
  static std::int32_t child(const Nodes& nodes, std::int32_t node, char byte);
  static std::int32_t next(const Nodes& nodes, std::int32_t node, char byte);
  static void add(Nodes& nodes, std::string_view text);
  static void link(Nodes& nodes);

  std::shared_ptr<const Nodes> nodes_;
  std::int32_t node_ = 0;   // the longest end of the text that begins a stop string
  std::size_t length_ = 0;  // of the text so far
  std::optional<Match> match_;
};

}  // namespace tpinfer
