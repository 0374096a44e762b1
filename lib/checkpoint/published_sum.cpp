#include "checkpoint/published_sum.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "checkpoint/model_file.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "core/sha256.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kDigits = 64;
constexpr std::size_t kMostText = std::size_t{16} << 20;

// In small letters; empty when it is no SHA-256.
std::string digest(std::string_view word) {
  if (word.size() != kDigits || word.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return {};
  std::string text(word);
  for (char& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c + ('a' - 'A')) : c;
  return text;
}

// "DIGITS  NAME" or "DIGITS *NAME" a line
std::string in_list(const fs::path& list, const std::string& name) {
  std::istringstream lines(read_text_file(list.string(), kMostText));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.size() < kDigits + 3 || line[kDigits] != ' ') continue;
    std::string_view listed = std::string_view(line).substr(kDigits + 2);
    if (listed.starts_with("./")) listed.remove_prefix(2);
    if (listed == name) return digest(std::string_view(line).substr(0, kDigits));
  }
  return {};
}

// The second line is what the hub named the content by: the SHA-256 of files in large file storage.
std::string in_metadata(const fs::path& file) {
  std::istringstream lines(read_text_file(file.string(), kMostText));
  std::string commit, etag;
  std::getline(lines, commit);
  std::getline(lines, etag);
  if (etag.ends_with('\r')) etag.pop_back();
  return digest(etag);
}

std::string blob_name(const fs::path& file) {
  std::error_code ec;
  const fs::path target = fs::read_symlink(file, ec);
  return !ec && target.parent_path().filename() == "blobs" ? digest(target.filename().string()) : std::string();
}

}  // namespace

std::optional<PublishedSum> published_sum(const fs::path& folder, const CheckpointFile& file) {
  const auto found = [&](const std::string& sha256, const fs::path& source) -> std::optional<PublishedSum> {
    if (sha256.empty()) return std::nullopt;
    return PublishedSum{file.path.string(), sha256, source.string()};
  };
  if (const fs::path list = folder / "SHA256SUMS"; is_in_folder(list))
    if (auto sum = found(in_list(list, file.name), list)) return sum;
  const fs::path metadata = folder / ".cache" / "huggingface" / "download" / (file.name + ".metadata");
  if (std::error_code ec; fs::is_regular_file(metadata, ec))
    if (auto sum = found(in_metadata(metadata), metadata)) return sum;
  return found(blob_name(file.path), "the name of its blob in the hub's cache");
}

std::vector<PublishedSum> published_sums(const fs::path& folder, const std::vector<CheckpointFile>& files) {
  std::vector<PublishedSum> sums;
  std::vector<std::string> without;
  for (const CheckpointFile& file : files) {
    if (auto sum = published_sum(folder, file))
      sums.push_back(std::move(*sum));
    else
      without.push_back(file.name);
  }
  if (!without.empty())
    throw Error(
        ExitCode::input,
        fmt::format("{}: model.verify_weights is checksum, but no checksum of {}{} is written down", folder.string(),
                    without.front(), without.size() > 1 ? fmt::format(" and {} more", without.size() - 1) : ""),
        "run `sha256sum *.safetensors > SHA256SUMS` there where the files are known to be good, or download "
        "them with huggingface-cli, which keeps their checksums");
  return sums;
}

void verify_sum(const PublishedSum& sum, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  const ModelFile file = open_model_file(sum.file);
  ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, file.bytes)));
  Sha256 hash;
  for (std::uint64_t done = 0; done < file.bytes; progress(done, file.bytes)) {
    const ssize_t got = ::pread(file.fd.get(), piece.data(), piece.size(), static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input("{}: cannot be read: {}", file.where, system_message(errno));
    if (got == 0) fail_input("{}: became shorter while it was read", file.where);
    hash.update(std::span(piece).first(static_cast<std::size_t>(got)));
    done += static_cast<std::uint64_t>(got);
  }
  const std::string found = hash.hex();
  if (found != sum.sha256)
    throw Error(ExitCode::input,
                fmt::format("{}: its SHA-256 is {}, but {} says {}: the file is damaged or another one", file.where,
                            found, sum.source, sum.sha256),
                "download it again");
}

}  // namespace tpinfer
