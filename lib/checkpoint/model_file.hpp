#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/file_handle.hpp"

namespace tpinfer {

/// An open regular file and its length.
struct ModelFile {
  FileHandle fd;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  ///< ns since 1970
  std::string where;          ///< its path, which begins every complaint
};

/// ns since 1970.
std::int64_t modification_time(const struct stat& info) noexcept;

/// Opens a file of a model folder for reading. Error(input) when it is missing, a link that leads nowhere or in a
/// circle, a folder, a pipe, a device, or may not be read. Never waits (pipes).
ModelFile open_model_file(const std::filesystem::path& path);

/// True when something of that name is in the folder, be it a link that leads nowhere. Error(input) when the system
/// will not tell.
bool is_in_folder(const std::filesystem::path& path);

/// Exactly `count` bytes from `offset`, and not one more (no read-ahead); Error(input) when the file ends before.
std::string read_bytes(const ModelFile& file, std::uint64_t offset, std::uint64_t count);

/// What a file that begins with `head` (some 500 bytes are enough) is, when it is something else than safetensors:
/// "a Git-LFS pointer: the file itself is not downloaded", "a web page", ...; "" when it is nothing known.
std::string_view foreign_kind(std::string_view head) noexcept;

/// A tensor's or file's name for a complaint: in quotes, control characters escaped, cut when it is very long.
std::string in_quotes(std::string_view name);

}  // namespace tpinfer
