#include "checkpoint/shard_index.hpp"

#include <algorithm>
#include <utility>

#include "checkpoint/model_file.hpp"
#include "core/error.hpp"
#include "core/json.hpp"

namespace tpinfer {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 256'000'000;

bool is_plain_relative(std::string_view name) noexcept {
  if (name.find('\0') != std::string_view::npos || name.find('\\') != std::string_view::npos) return false;
  for (;;) {
    const auto slash = name.find('/');
    const auto part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

Json read_index_json(const std::filesystem::path& path) {
  const ModelFile file = open_model_file(path);
  if (file.bytes == 0) fail_input("{}: is empty (incomplete download?)", file.where);
  if (file.bytes > kMaxIndexBytes)
    fail_input("{}: has {} bytes, more than the {} that are accepted for an index", file.where, file.bytes,
               kMaxIndexBytes);
  const std::string text = read_bytes(file, 0, file.bytes);
  if (const auto kind = foreign_kind(std::string_view(text).substr(0, 512)); !kind.empty() && text[0] != '{')
    fail_input("{}: is not an index but {}", file.where, kind);
  return parse_json(text, file.where, {.max_bytes = kMaxIndexBytes, .max_depth = 16});
}

std::string and_more(std::size_t count) { return count > 1 ? fmt::format(" (and {} more)", count - 1) : ""; }

}  // namespace

ShardIndex read_shard_index(const std::filesystem::path& path) {
  ShardIndex index;
  index.where = path.string();
  const Json json = read_index_json(path);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    fail_input("{}: has no \"weight_map\" object, which tells the file of each tensor", index.where);
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      fail_input("{}: weight_map: the file of tensor {} must be a string, not {}", index.where, in_quotes(tensor),
                 in_quotes(file.dump()));
    const auto& name = file.get_ref<const std::string&>();
    if (!is_plain_relative(name))
      fail_input(
          "{}: weight_map: tensor {} is said to be in {}; only plain names inside the model's folder are "
          "accepted",
          index.where, in_quotes(tensor), in_quotes(name));
    index.files.push_back(name);
    index.entries.push_back({tensor, 0});
  }
  if (index.entries.empty()) fail_input("{}: its \"weight_map\" is empty", index.where);
  const std::vector<std::string> file_of = index.files;
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  for (std::size_t i = 0; i < file_of.size(); ++i) {
    const auto at = std::lower_bound(index.files.begin(), index.files.end(), file_of[i]);
    index.entries[i].file = static_cast<std::uint32_t>(at - index.files.begin());
  }
  std::sort(index.entries.begin(), index.entries.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  return index;
}

void check_against_shards(const ShardIndex& index, const std::vector<TensorInfo>& tensors) {
  std::vector<const TensorInfo*> unlisted;
  std::vector<const ShardIndex::Entry*> missing;
  std::vector<std::pair<const ShardIndex::Entry*, const TensorInfo*>> elsewhere;
  auto entry = index.entries.begin();
  auto tensor = tensors.begin();
  while (entry != index.entries.end() || tensor != tensors.end()) {
    const bool only_found = entry == index.entries.end() || (tensor != tensors.end() && tensor->name < entry->tensor);
    const bool only_listed = tensor == tensors.end() || (entry != index.entries.end() && entry->tensor < tensor->name);
    if (!only_found && !only_listed && entry->file != tensor->file) elsewhere.emplace_back(&*entry, &*tensor);
    if (only_found) unlisted.push_back(&*tensor);
    if (only_listed) missing.push_back(&*entry);
    if (!only_found) ++entry;
    if (!only_listed) ++tensor;
  }
  if (!missing.empty())
    fail_input("{}: says that the tensor {} is in {}, but neither this nor another shard has it{}", index.where,
               in_quotes(missing[0]->tensor), in_quotes(index.files[missing[0]->file]), and_more(missing.size()));
  if (!elsewhere.empty()) {
    const auto& [listed, found] = elsewhere[0];
    fail_input("{}: says that the tensor {} is in {}, but it is in {}{}", index.where, in_quotes(listed->tensor),
               in_quotes(index.files[listed->file]), in_quotes(index.files[found->file]), and_more(elsewhere.size()));
  }
  if (!unlisted.empty())
    fail_input("{}: does not list the tensor {}, which is in {}{} (index and files are of different versions)",
               index.where, in_quotes(unlisted[0]->name), in_quotes(index.files[unlisted[0]->file]),
               and_more(unlisted.size()));
}

}  // namespace tpinfer
