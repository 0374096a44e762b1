#include "output/part_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/error.hpp"

namespace tpinfer {

namespace {

namespace fs = std::filesystem;

fs::path part_of(const fs::path& file) { return file.string() + ".part"; }

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

std::string hint_for(int number, const fs::path& file, const char* option) {
  switch (number) {
    case ENOENT: return fmt::format("create the folder {} or name another {}", folder_of(file).string(), option);
    case ENOTDIR: return fmt::format("{} is no folder: name another {}", folder_of(file).string(), option);
    case EISDIR: return fmt::format("name a file, not a folder, as {}", option);
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("allow writing to the folder {} or name another {}", folder_of(file).string(), option);
    case ENOSPC:
    case EDQUOT: return fmt::format("make room or name another {}, then run the same command again", option);
    default: return fmt::format("name another {}", option);
  }
}

int create_fresh(const fs::path& part) {
  return ::open(part.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

}  // namespace

void fail_output(const fs::path& file, int number, const char* option) {
  throw Error(ExitCode::output, fmt::format("cannot write {}: {}", file.string(), system_message(number)),
              hint_for(number, file, option));
}

void sync_folder(const fs::path& file, const char* option) {
  const FileHandle folder(::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a folder (EINVAL); the renamed file is there all the same.
  if (!folder || (::fsync(folder.get()) != 0 && errno != EINVAL)) fail_output(file, errno, option);
}

bool output_exists(const fs::path& file, const char* option) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    fail_output(file, errno, option);
  }
  if (S_ISDIR(info.st_mode)) fail_output(file, EISDIR, option);
  if (!S_ISREG(info.st_mode))
    throw Error(ExitCode::output, fmt::format("cannot write {}: it is no regular file", file.string()),
                fmt::format("name another {}", option));
  return true;
}

void check_output_place(const fs::path& file, const char* option) {
  if (file.filename().empty()) fail_output(file, EISDIR, option);
  output_exists(file, option);
  const fs::path part = part_of(file);
  if (const FileHandle fd(create_fresh(part)); fd) {
    ::unlink(part.c_str());
  } else if (errno != EEXIST) {
    fail_output(file, errno, option);
  } else if (::access(folder_of(file).c_str(), W_OK | X_OK) != 0) {
    fail_output(file, errno, option);  // a .part from a killed run is replaced later
  } else if (fs::is_directory(fs::symlink_status(part))) {
    throw Error(ExitCode::output, fmt::format("cannot write {}: {} is a folder", file.string(), part.string()),
                fmt::format("remove it or name another {}", option));
  }
}

PartFile::PartFile(const fs::path& file, const char* option) : file_(file), part_(part_of(file)), option_(option) {
  output_exists(file_, option_);
  if (::unlink(part_.c_str()) != 0 && errno != ENOENT) fail_output(file_, errno, option_);
  fd_ = FileHandle(create_fresh(part_));
  if (!fd_) fail_output(file_, errno, option_);
}

PartFile::~PartFile() {
  if (fd_ && !committed_) ::unlink(part_.c_str());
}

void PartFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_output(file_, errno, option_);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void PartFile::commit() {
  if (::fsync(fd_.get()) != 0) fail_output(file_, errno, option_);
  if (::rename(part_.c_str(), file_.c_str()) != 0) fail_output(file_, errno, option_);
  committed_ = true;
  fd_.reset();
  sync_folder(file_, option_);
}

}  // namespace tpinfer
