#include "job/aliases.hpp"

#include <algorithm>
#include <string>

namespace tpinfer {
namespace {

// Renames entry `index` of `mapping`, or drops it with a complaint where the canonical key stands already.
void rename(Node& mapping, std::size_t index, std::string_view name, const std::string& section, Problems& problems) {
  Node::Entry& entry = mapping.entries[index];
  if (mapping.find(name)) {
    problems.add(entry.place, section + "." + entry.key,
                 fmt::format("is another name of {}.{}, which is given too (keep one)", section, name));
    mapping.entries.erase(mapping.entries.begin() + static_cast<std::ptrdiff_t>(index));
    return;
  }
  entry.key = std::string(name);
}

constexpr KeyAlias kAliases[] = {{"model", "model_path", "path"},
                                 {"model", "model_name_or_path", "path"},
                                 {"sampling", "max_tokens", "max_new_tokens"},
                                 {"sampling", "num_return_sequences", "n"}};

// The key itself where it is no alias.
std::string_view canonical_key(std::string_view section, std::string_view key) noexcept {
  for (const KeyAlias& alias : kAliases)
    if (alias.section == section && alias.alias == key) return alias.name;
  return key;
}

bool is_model_path_alias(std::string_view key) { return canonical_key("model", key) != key; }

// model_path beside `model:` becomes model.path.
void move_into_model(Node& root, std::size_t index) {
  Node::Entry entry = std::move(root.entries[index]);
  root.entries.erase(root.entries.begin() + static_cast<std::ptrdiff_t>(index));
  if (!root.find("model")) root.entries.push_back({"model", entry.place, Node::mapping_at(entry.place)});
  Node& model = root.find("model")->value;
  if (model.is_null()) model.kind = Node::Kind::mapping;
  model.entries.push_back(std::move(entry));  // still under its alias
}

}  // namespace

std::span<const KeyAlias> key_aliases() noexcept { return kAliases; }

std::string_view canonical_sampling_key(std::string_view key) noexcept { return canonical_key("sampling", key); }

void use_canonical_keys(Node& root, Problems& problems) {
  if (!root.is_mapping()) return;
  if (auto* model = root.find("model"); model && model->value.is_scalar()) {
    Node path = std::move(model->value);
    model->value = Node::mapping_at(path.place);
    model->value.entries.push_back({"path", model->place, std::move(path)});
  }
  const auto* model = root.find("model");
  if (!model || model->value.is_mapping() || model->value.is_null())
    for (std::size_t i = root.entries.size(); i-- > 0;)
      if (is_model_path_alias(root.entries[i].key)) move_into_model(root, i);
  const auto rename_all = [&](const char* section) {
    auto* entry = root.find(section);
    if (!entry) return;
    for (std::size_t i = entry->value.entries.size(); i-- > 0;) {
      const std::string key = entry->value.entries[i].key;
      const std::string name(canonical_key(section, key));
      if (name != key) rename(entry->value, i, name, section, problems);
    }
  };
  rename_all("model");
  rename_all("sampling");
}

void merge_into(Node& base, Node&& over) {
  if (over.is_null() && base.is_mapping()) return;
  if (!base.is_mapping() || !over.is_mapping()) {
    base = std::move(over);
    return;
  }
  for (Node::Entry& entry : over.entries) {
    auto* old = base.find(entry.key);
    if (!old) {
      base.entries.push_back(std::move(entry));
      continue;
    }
    old->place = entry.place;
    // the only mapping that is a value, not a section
    if (entry.key == "logit_bias")
      old->value = std::move(entry.value);
    else
      merge_into(old->value, std::move(entry.value));
  }
}

}  // namespace tpinfer
