#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "job/codec.hpp"
#include "job/fields.hpp"

namespace tpinfer {

/// Takes typed values from a tree of nodes and records the keys it asked for; what is left over is unknown. It is the
/// visitor of visit_job and visit_sampling that reads.
class Reader {
 public:
  /// `root` is a mapping, or null for an empty one; `prefix` begins the names of its keys in complaints.
  Reader(const Node& root, std::string prefix, std::string base_folder, Problems& problems)
      : context_{problems, std::move(base_folder), {}} {
    levels_.push_back({root.is_mapping() ? &root : nullptr, root.place, std::move(prefix), {}});
  }

  Reader(const Node&&, std::string, std::string, Problems&) = delete;  // the tree must outlive its reader

  template <class Body>
  void section(std::string_view key, Body&& body) {
    const Node* node = ask(key);
    const Place place = node ? node->place : levels_.back().place;
    if (node && !node->is_mapping() && !node->is_null()) not_a_section(*node, full(key));
    levels_.push_back({node && node->is_mapping() ? node : nullptr, place, full(key), {}});
    body();
    finish();
    levels_.pop_back();
  }

  /// Returns whether the key stood there and was good.
  template <class T, class Codec>
  bool field(std::string_view key, T& value, const Codec& codec) {
    const Node* node = ask(key);
    if (!node) return false;
    context_.key = full(key);
    return codec.read(context_, *node, value);
  }
  template <class T, class Codec>
  void required(std::string_view key, T& value, const Codec& codec) {
    const Node* node = ask(key);
    if (node && !node->is_null())
      field(key, value, codec);
    else if (std::find(broken_.begin(), broken_.end(), levels_.back().prefix) == broken_.end())
      context_.problems.add(node ? node->place : levels_.back().place, full(key), "is missing, the job needs it");
  }

  void sampling(SamplingRequest& request) {
    SamplingParams unused;
    DoSample mode = DoSample::automatic;
    visit_sampling(
        [&](std::string_view key, auto& given, auto&, const auto& codec) {
          typename std::remove_reference_t<decltype(given)>::value_type value{};
          if (field(key, value, codec)) given = std::move(value);
        },
        request, unused, mode);
  }

  /// Reports the keys that nobody asked for at this level.
  void finish();

 private:
  struct Level {
    const Node* node;  // a mapping or nothing
    Place place;
    std::string prefix;
    std::vector<std::string> asked;
  };

  const Node* ask(std::string_view key) {
    levels_.back().asked.emplace_back(key);
    const auto* entry = levels_.back().node ? levels_.back().node->find(key) : nullptr;
    return entry ? &entry->value : nullptr;
  }
  std::string full(std::string_view key) const {
    const std::string& prefix = levels_.back().prefix;
    return prefix.empty() ? std::string(key) : fmt::format("{}.{}", prefix, key);
  }
  bool in_job_file() const { return levels_.front().prefix.empty(); }
  void not_a_section(const Node& node, const std::string& key);

  ReadContext context_;
  std::vector<Level> levels_;
  std::vector<std::string> broken_;  // sections that are no mappings: their missing keys are not worth a complaint
};

/// "unknown key" with the best hint there is: a peer's name, the section of the job file where the key belongs, or the
/// nearest of `siblings`.
std::string unknown_key_message(std::string_view key, const std::vector<std::string>& siblings, bool in_job_file);

/// What to write instead of a name that other programs use, or "" for a name that none of them does.
std::string_view foreign_name_hint(std::string_view key);

/// Dotted names of all keys of a job file.
std::vector<std::string> known_keys();

}  // namespace tpinfer
