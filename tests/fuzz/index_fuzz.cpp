// The bytes are a model.safetensors.index.json. It must end in a sentence or in plain names of files within the folder;
// shards that have what it says agree with it, and shards that lack a tensor do not.

#include <algorithm>

#include "checkpoint/shard_index.hpp"
#include "fuzz_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  fuzz::may_refuse(ExitCode::input, [&] {
    const ShardIndex index = read_shard_index(fuzz::write("model.safetensors.index.json", fuzz::text_of(data, size)));
    for (const std::string& name : index.files) {
      const std::filesystem::path path(name);
      fuzz::require(!name.empty() && path.is_relative() && std::ranges::find(path, "..") == path.end());
    }
    std::vector<TensorInfo> tensors;
    for (const ShardIndex::Entry& entry : index.entries) {
      fuzz::require(entry.file < index.files.size());
      tensors.push_back({.name = entry.tensor, .shape = {}, .file = entry.file});
    }
    check_against_shards(index, tensors);
    if (tensors.empty()) return;
    tensors.pop_back();
    bool refused = false;
    try {
      check_against_shards(index, tensors);
    } catch (const Error& error) {
      refused = error.code() == ExitCode::input;
    }
    fuzz::require(refused);
  });
  return 0;
}
