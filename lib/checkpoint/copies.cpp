#include "checkpoint/copies.hpp"

#include <algorithm>
#include <iterator>

#include "checkpoint/model_file.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

bool same_bytes(const std::filesystem::path& folder, const ShardIndex& index, const TensorInfo& a,
                const TensorInfo& b) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
  const ModelFile first = open_model_file(folder / index.files[a.file]);
  const ModelFile second = open_model_file(folder / index.files[b.file]);
  for (std::uint64_t done = 0; done < a.bytes; done += kBlock) {
    const std::uint64_t count = std::min(kBlock, a.bytes - done);
    if (read_bytes(first, a.offset + done, count) != read_bytes(second, b.offset + done, count)) return false;
  }
  return true;
}

void require_equal(const ShardIndex& index, const std::filesystem::path& folder, const TensorInfo& a,
                   const TensorInfo& b) {
  const auto refuse = [&](const std::string& difference) {
    throw Error(ExitCode::input,
                fmt::format("{}: the tensor {} is in two shards, {} and {}, {}", index.where, in_quotes(a.name),
                            index.files[a.file], index.files[b.file], difference),
                "remove the wrong one, or download the model again");
  };
  if (a.dtype != b.dtype) refuse(fmt::format("as {} and as {}", safetensors_name(a.dtype), safetensors_name(b.dtype)));
  if (a.shape != b.shape)
    refuse(fmt::format("of shapes [{}] and [{}]", fmt::join(a.shape, ", "), fmt::join(b.shape, ", ")));
  if (!same_bytes(folder, index, a, b)) refuse("with different bytes");
}

}  // namespace

void drop_copies(const ShardIndex& index, const std::filesystem::path& folder, std::vector<TensorInfo>& tensors,
                 const Log& log) {
  const auto same_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; };
  auto at = std::adjacent_find(tensors.begin(), tensors.end(), same_name);
  if (at == tensors.end()) return;
  std::size_t names = 0;
  std::string first;
  std::vector<TensorInfo> kept(tensors.begin(), at);
  while (at != tensors.end()) {
    const auto end = std::find_if(at, tensors.end(), [&](const TensorInfo& t) { return t.name != at->name; });
    const auto entry = std::ranges::lower_bound(index.entries, at->name, {}, &ShardIndex::Entry::tensor);
    const bool listed = entry != index.entries.end() && entry->tensor == at->name;
    auto wanted = std::find_if(at, end, [&](const TensorInfo& t) { return listed && t.file == entry->file; });
    if (wanted == end) wanted = at;  // the index is wrong about it, which is told by whoever compares
    for (auto copy = at; copy != end; ++copy)
      if (copy != wanted) require_equal(index, folder, *std::min(wanted, copy), *std::max(wanted, copy));
    if (end - at > 1 && ++names == 1)
      first = fmt::format("{} is in {} and, with the same bytes, in {}", in_quotes(at->name), index.files[wanted->file],
                          index.files[(wanted == at ? std::next(at) : at)->file]);
    kept.push_back(std::move(*wanted));
    at = end;
  }
  tensors = std::move(kept);
  log.warning("{}: the tensor {}{}; that of the index is loaded", index.where, first,
              names > 1 ? fmt::format(" ({} more like it)", names - 1) : "");
}

}  // namespace tpinfer
