#include "checkpoint/model_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "core/error.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as the kernel

// Where a chain of links that leads nowhere ends: the first name on it that does not exist.
fs::path end_of_links(fs::path path) {
  std::error_code failed;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(path, failed)); ++i) {
    const fs::path target = fs::read_symlink(path, failed);
    if (failed) break;
    path = target.is_absolute() ? target : (path.parent_path() / target).lexically_normal();
  }
  return path;
}

[[noreturn]] void fail_open(const fs::path& path, int number) {
  std::error_code failed;
  const bool link = fs::is_symlink(fs::symlink_status(path, failed));
  const std::string where = path.string();
  if (link && number == ELOOP)
    fail_input("{}: is a link that leads back to itself (link: {})", where, fs::read_symlink(path, failed).string());
  if (link && number == ENOENT)
    fail_input("{}: is a link to {}, which does not exist (incomplete download, or the target was moved)", where,
               end_of_links(path).string());
  if (number == ENOENT) fail_input("{}: there is no such file", where);
  if (number == EACCES) fail_input("{}: may not be read: permission denied (chmod, or ask its owner)", where);
  fail_input("{}: cannot be opened: {}", where, system_message(number));
}

std::string_view type_word(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

bool is_web_page(std::string_view head) noexcept {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  while (!head.empty() && (head[0] == ' ' || head[0] == '\n' || head[0] == '\r' || head[0] == '\t'))
    head.remove_prefix(1);
  static constexpr std::array<std::string_view, 4> kStarts{"<!doctype", "<html", "<head", "<?xml"};
  return std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) {
    return head.size() >= start.size() && std::equal(start.begin(), start.end(), head.begin(), [](char a, char b) {
             return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
           });
  });
}

}  // namespace

std::int64_t modification_time(const struct stat& info) noexcept {
  return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

ModelFile open_model_file(const fs::path& path) {
  ModelFile file;
  file.where = path.string();
  // O_NONBLOCK: a pipe is opened at once, and refused below
  file.fd = FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd) fail_open(path, errno);
  struct stat info {};
  if (::fstat(file.fd.get(), &info) != 0) fail_input("{}: cannot be read: {}", file.where, system_message(errno));
  if (!S_ISREG(info.st_mode)) fail_input("{}: is {}, a file is needed", file.where, type_word(info.st_mode));
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  file.modified = modification_time(info);
  return file;
}

bool is_in_folder(const fs::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  fail_input("{}: cannot be looked up: {}", path.string(), system_message(errno));
}

std::string read_bytes(const ModelFile& file, std::uint64_t offset, std::uint64_t count) {
  // read-ahead would fetch weights, which is slow on a network disk and not ours to read
  ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_RANDOM);
  if (offset > file.bytes || count > file.bytes - offset)
    fail_input("{}: has {} bytes, but bytes {} to {} are needed: the file is cut short", file.where, file.bytes, offset,
               offset + count);
  std::string text(static_cast<std::size_t>(count), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(file.fd.get(), text.data() + done, text.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_input("{}: cannot be read: {}", file.where, system_message(errno));
    if (got == 0) fail_input("{}: became shorter while it was read", file.where);
    done += static_cast<std::size_t>(got);
  }
  return text;
}

std::string_view foreign_kind(std::string_view head) noexcept {
  struct Kind {
    std::string_view start;
    std::string_view words;
  };
  using namespace std::string_view_literals;
  static constexpr std::array<Kind, 9> kKinds{{
      {"version https://git-lfs", "a Git-LFS pointer: the file itself is not downloaded (run `git lfs pull`)"},
      {"PK\x03\x04", "a zip archive, which is what PyTorch files (.bin, .pt) are (convert it to safetensors)"},
      {"\x80\x02", "a Python pickle, which is what old PyTorch files (.bin, .pt) are (convert it to safetensors)"},
      {"GGUF", "a GGUF file (take the model's folder with safetensors files instead)"},
      {"\x89HDF\r\n", "an HDF5 file"},
      {"\x1f\x8b", "a gzip archive (unpack it)"},
      {"{", "a JSON text"},
      {"\x28\xb5\x2f\xfd", "a zstd archive (unpack it)"},
      {"\x93NUMPY", "a NumPy array"},
  }};
  for (const Kind& kind : kKinds)
    if (head.starts_with(kind.start)) return kind.words;
  if (is_web_page(head)) return "a web page (the download was refused, perhaps for want of a licence or a login)";
  return {};
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  std::string text = "\"";
  const bool cut = name.size() > kLongest;
  if (cut) {
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;  // not inside a letter
    name = name.substr(0, end);
  }
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text + (cut ? "...\"" : "\"");
}

}  // namespace tpinfer
