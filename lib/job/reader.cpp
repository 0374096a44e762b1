#include "job/reader.hpp"

#include "core/text_distance.hpp"
#include "job/resolved.hpp"

namespace tpinfer {
namespace {

void collect(const Json& json, const std::string& prefix, std::vector<std::string>& out) {
  for (const auto& [key, value] : json.items()) {
    out.push_back(prefix + key);
    if (value.is_object()) collect(value, prefix + key + ".", out);
  }
}

}  // namespace

std::vector<std::string> known_keys() {
  std::vector<std::string> keys;
  collect(job_json(Job{}, {}), "", keys);
  return keys;
}

std::string unknown_key_message(std::string_view key, const std::vector<std::string>& siblings, bool in_job_file) {
  if (const auto hint = foreign_name_hint(key); !hint.empty()) return fmt::format("unknown key: {}", hint);
  if (key.size() > 64) return "unknown key";
  const auto dot = key.find('.');
  if (in_job_file && dot != std::string_view::npos)
    return fmt::format("unknown key (a dot is for --set alone, write {}: {{{}: ...}})", key.substr(0, dot),
                       key.substr(dot + 1));
  std::vector<std::string> elsewhere;
  for (const std::string& known : known_keys())
    if (known == key || known.ends_with(fmt::format(".{}", key))) elsewhere.push_back(known);
  if (in_job_file && !elsewhere.empty()) return fmt::format("unknown key here (it is written {})", either(elsewhere));
  const std::string near = nearest_word(key, siblings);
  return near.empty() ? "unknown key" : fmt::format("unknown key (did you mean {}?)", near);
}

void Reader::finish() {
  const Level& level = levels_.back();
  if (!level.node) return;
  for (const Node::Entry& entry : level.node->entries) {
    if (std::find(level.asked.begin(), level.asked.end(), entry.key) != level.asked.end()) continue;
    const std::string message =
        context_.problems.full() ? std::string() : unknown_key_message(entry.key, level.asked, in_job_file());
    const std::string shown_key = shown(entry.key);
    context_.problems.add(entry.place, full(shown_key.substr(1, shown_key.size() - 2)), message);
  }
}

void Reader::not_a_section(const Node& node, const std::string& key) {
  broken_.push_back(key);
  const bool has_file = key == "prompts" || key == "output";
  const std::string hint = has_file && node.is_scalar() ? fmt::format(" (write {}: {{file: {}}})", key, node.text) : "";
  context_.problems.add(node.place, key, fmt::format("must be a mapping of keys, it is {}{}", describe(node), hint));
}

}  // namespace tpinfer
