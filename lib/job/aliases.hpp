#pragma once

#include <span>
#include <string_view>

#include "job/document.hpp"
#include "job/problems.hpp"

namespace tpinfer {

/// Another name of a key of `section`; those of model.path may also stand at the top level.
struct KeyAlias {
  std::string_view section, alias, name;
};
std::span<const KeyAlias> key_aliases() noexcept;

/// max_new_tokens for max_tokens, n for num_return_sequences; any other key is its own.
std::string_view canonical_sampling_key(std::string_view key) noexcept;

/// Renames the other names that the job file allows (`model: DIR`, model_path, model_name_or_path, max_tokens,
/// num_return_sequences) in a tree before it is merged with others. A value given under both names is reported.
void use_canonical_keys(Node& root, Problems& problems);

/// `over` laid on `base`: mappings key by key, all else replaced. An empty section leaves the base as it is.
void merge_into(Node& base, Node&& over);

}  // namespace tpinfer
