#pragma once

#include <filesystem>

namespace tpinfer {

/// The last 16 bytes of a result file, after the end of its HDF5 content: "TPISUM1\n" and the XXH3 hash of all before
/// it. HDF5 ignores bytes past its end and drops them when a program opens the file for writing, so a file edited on
/// purpose has none and is read without this check; a damaged copy is found before HDF5 walks into it.
void append_checksum(int fd);

enum class ChecksumState { absent, right, wrong };

/// Compares the file's bytes with its checksum. Throws std::system_error when it cannot be read.
ChecksumState check_checksum(const std::filesystem::path& file);

}  // namespace tpinfer
