#include "prompts/byte_source.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 17;
constexpr int kAskEvery = 50;  // ms
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string source_name(const std::string& path) { return path == "-" ? "standard input" : path; }

struct ByteSource::Inflate {
  z_stream stream{};
  std::string input;
  bool between_members = false;  ///< after the end of one, where the file may end
};

ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;

ByteSource::~ByteSource() {
  if (inflate_) ::inflateEnd(&inflate_->stream);
}

// A pipe that nobody writes to yet must not hold up one who may be told to stop.
void ByteSource::open(const std::string& path) {
  file_ = FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (stopped_ ? O_NONBLOCK : 0)));
  if (!file_) fail_input("{}: cannot be opened: {}", name_, system_message(errno));
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) fail_input("{}: cannot be read: {}", name_, system_message(errno));
  if (S_ISDIR(info.st_mode)) fail_input("{}: is a folder, a file is needed", name_);
  descriptor_ = file_.get();
}

ByteSource::ByteSource(const std::string& path, StopReading stopped)
    : name_(source_name(path)), stopped_(std::move(stopped)) {
  if (path == "-")
    descriptor_ = STDIN_FILENO;
  else
    open(path);
  head_.resize(2);
  std::size_t got = 0;
  while (got < head_.size()) {
    const std::size_t more = read_file(head_.data() + got, head_.size() - got);
    if (more == 0) break;
    got += more;
  }
  head_.resize(got);
  if (head_ != "\x1f\x8b") return;
  inflate_ = std::make_unique<Inflate>();
  if (::inflateInit2(&inflate_->stream, MAX_WBITS + 16) != Z_OK) {  // 16: gzip
    inflate_.reset();
    throw Error(ExitCode::internal, "zlib cannot be started");
  }
}

std::size_t ByteSource::read(char* to, std::size_t size) {
  return inflate_ ? read_packed(to, size) : read_stored(to, size);
}

void ByteSource::wait_for_data() const {
  for (pollfd wanted{.fd = descriptor_, .events = POLLIN, .revents = 0}; stopped_;) {
    if (stopped_()) throw ReadingStopped{};
    const int ready = ::poll(&wanted, 1, kAskEvery);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;  // whatever it is, read() tells
  }
}

std::size_t ByteSource::read_file(char* to, std::size_t size) {
  for (;;) {
    wait_for_data();
    const ssize_t got = ::read(descriptor_, to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR && !(errno == EAGAIN && stopped_))
      fail_input("{}: cannot be read: {}", name_, system_message(errno));
  }
}

std::size_t ByteSource::read_stored(char* to, std::size_t size) {
  if (head_used_ == head_.size()) return read_file(to, size);
  const std::size_t count = std::min(size, head_.size() - head_used_);
  std::copy_n(head_.data() + head_used_, count, to);
  head_used_ += count;
  return count;
}

std::size_t ByteSource::read_packed(char* to, std::size_t size) {
  Inflate& z = *inflate_;
  z.stream.next_out = reinterpret_cast<Bytef*>(to);
  z.stream.avail_out = static_cast<uInt>(std::min(size, kBlock));
  const uInt asked = z.stream.avail_out;
  while (z.stream.avail_out == asked) {
    if (z.stream.avail_in == 0) {
      z.input.resize(kBlock);
      const std::size_t got = read_stored(z.input.data(), z.input.size());
      if (got == 0 && z.between_members) return 0;
      if (got == 0) fail_input("{}: the packed data ends in the middle (is the file complete?)", name_);
      z.stream.next_in = reinterpret_cast<Bytef*>(z.input.data());
      z.stream.avail_in = static_cast<uInt>(got);
    }
    if (z.between_members) {
      ::inflateReset(&z.stream);
      z.between_members = false;
    }
    const int result = ::inflate(&z.stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      z.between_members = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail_input("{}: the packed data is damaged: {}", name_, z.stream.msg ? z.stream.msg : "it is no gzip stream");
    }
  }
  return asked - z.stream.avail_out;
}

bool LineReader::fill() {
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
  }
  const std::size_t old = buffer_.size();
  buffer_.resize(old + kBlock);
  const std::size_t got = source_.read(buffer_.data() + old, kBlock);
  buffer_.resize(old + got);
  return got > 0;
}

std::string_view LineReader::peek(std::size_t bytes) {
  while (buffer_.size() - used_ < bytes && fill()) {
  }
  if (!begun_) {
    begun_ = true;
    if (std::string_view(buffer_).substr(used_).starts_with(kByteOrderMark)) used_ += kByteOrderMark.size();
  }
  return std::string_view(buffer_).substr(used_);
}

bool LineReader::next(std::string& line) {
  line.clear();
  too_long_ = false;
  if (!begun_) peek(kByteOrderMark.size());
  if (peek(1).empty()) return false;
  ++number_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', used_);
    const std::string_view part = std::string_view(buffer_).substr(used_, end - used_);
    const std::size_t kept = std::min(part.size(), kMostLine - line.size());
    too_long_ = too_long_ || kept < part.size();
    line.append(part.substr(0, kept));
    used_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (end != std::string::npos || !fill()) return true;
  }
}

}  // namespace tpinfer
