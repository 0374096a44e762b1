#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace tpinfer {

/// The SHA-256 of a weight file as it was written down when the folder was made or fetched.
struct PublishedSum {
  std::string file;    ///< its path
  std::string sha256;  ///< 64 small hexadecimal digits
  std::string source;  ///< where that stands, for messages
};

/// Looked up in FOLDER/SHA256SUMS (as sha256sum prints it), in what the hub's downloader keeps in
/// FOLDER/.cache/huggingface/download, and in the name of the blob that a link of the hub's cache leads to.
std::optional<PublishedSum> published_sum(const std::filesystem::path& folder, const CheckpointFile& file);

/// Of all files; Error(input) with those that have none.
std::vector<PublishedSum> published_sums(const std::filesystem::path& folder, const std::vector<CheckpointFile>& files);

/// Reads the whole file, telling `progress` the bytes so far and in all; Error(input) when its SHA-256 is another.
void verify_sum(const PublishedSum& sum, const std::function<void(std::uint64_t done, std::uint64_t all)>& progress);

}  // namespace tpinfer
