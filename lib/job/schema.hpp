#pragma once

#include <span>
#include <string_view>

#include "core/json.hpp"

namespace tpinfer {

/// JSON Schema (2020-12) of the job file, from the same table of keys that the reader walks: types, ranges, words,
/// defaults, other names, unknown keys. What only several keys together, or the file system, show is not in it.
Json job_schema();

/// What a key means, in some words.
struct KeyNote {
  std::string_view key;  ///< dotted
  std::string_view text;
};
std::span<const KeyNote> key_notes();

}  // namespace tpinfer
