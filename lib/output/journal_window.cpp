#include "output/journal_window.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tpinfer {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 20;

}  // namespace

void JournalWindow::look_again() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(errno);
  size_ = static_cast<std::uint64_t>(info.st_size);
  begin_ = 0;
  bytes_.clear();
}

std::span<const std::byte> JournalWindow::at(std::uint64_t offset, std::uint64_t count) {
  offset = std::min(offset, size_);
  count = std::min(count, size_ - offset);
  if (offset < begin_ || offset + count > begin_ + bytes_.size())
    load(offset, std::max<std::uint64_t>(count, kWindowBytes));
  const std::uint64_t from = std::min<std::uint64_t>(offset - begin_, bytes_.size());
  return std::span(bytes_).subspan(static_cast<std::size_t>(from),
                                   static_cast<std::size_t>(std::min(count, bytes_.size() - from)));
}

void JournalWindow::load(std::uint64_t offset, std::uint64_t count) {
  bytes_.resize(static_cast<std::size_t>(std::min(count, size_ - offset)));
  begin_ = offset;
  std::size_t done = 0;
  while (done < bytes_.size()) {
    const ssize_t n = ::pread(fd_, bytes_.data() + done, bytes_.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(errno);
    if (n == 0) break;  // cut while it is read
    done += static_cast<std::size_t>(n);
  }
  bytes_.resize(done);
}

void JournalWindow::fail(int number) const {
  throw Error(code_, fmt::format("cannot read {}: {}", name_, system_message(number)));
}

std::optional<JournalRecord> next_journal_record(JournalWindow& file, std::uint64_t offset) {
  for (; offset + kJournalHeaderBytes <= file.size(); ++offset) {
    const auto bytes = file.at(offset, kJournalHeaderBytes);
    if (bytes.empty()) return std::nullopt;
    if (bytes[0] != kJournalMark[0]) continue;
    const auto header = parse_journal_header(bytes, offset);
    if (!header) continue;
    const std::uint64_t begin = offset + kJournalHeaderBytes;
    if (header->bytes > file.size() - begin) return std::nullopt;
    const auto payload = file.at(begin, header->bytes);
    const bool sound = payload.size() == header->bytes && journal_payload_hash(payload, offset) == header->hash;
    return JournalRecord{header->kind, offset, begin + header->bytes, sound};
  }
  return std::nullopt;
}

}  // namespace tpinfer
