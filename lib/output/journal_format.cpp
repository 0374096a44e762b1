#include "output/journal_format.hpp"

#include <algorithm>
#include <cstring>

#include "core/bytes.hpp"

namespace tpinfer {
namespace {

constexpr char kFileMark[8] = {'T', 'P', 'I', 'J', 'R', 'N', 'L', '\n'};
constexpr std::uint32_t kByteOrder = 0x01020304;
constexpr std::size_t kHashedHeaderBytes = kJournalHeaderBytes - sizeof(std::uint64_t);

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

std::array<std::byte, kJournalPreambleBytes> journal_preamble() {
  std::array<std::byte, kJournalPreambleBytes> out{};
  std::memcpy(out.data(), kFileMark, sizeof kFileMark);
  std::memcpy(out.data() + 8, &kJournalVersion, sizeof kJournalVersion);
  std::memcpy(out.data() + 12, &kByteOrder, sizeof kByteOrder);
  return out;
}

std::optional<std::uint32_t> journal_version(std::span<const std::byte> preamble) {
  if (preamble.size() < kJournalPreambleBytes || std::memcmp(preamble.data(), kFileMark, sizeof kFileMark) != 0)
    return std::nullopt;
  return number_at<std::uint32_t>(preamble, 12) == kByteOrder ? number_at<std::uint32_t>(preamble, 8) : 0;
}

std::uint64_t journal_payload_hash(std::span<const std::byte> payload, std::uint64_t offset) {
  return hash_bytes(payload, offset);
}

void frame_journal_record(JournalKind kind, std::span<const std::byte> payload, std::uint64_t offset,
                          std::vector<std::byte>& out) {
  ByteWriter to(std::move(out));
  for (const std::byte b : kJournalMark) to.put(b);
  to.put(kind);
  to.put(static_cast<std::uint64_t>(payload.size()));
  to.put(journal_payload_hash(payload, offset));
  to.put(hash_bytes(to.bytes(), offset));
  out = to.take();
  out.insert(out.end(), payload.begin(), payload.end());
}

std::optional<JournalRecordHeader> parse_journal_header(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (bytes.size() < kJournalHeaderBytes || !std::ranges::equal(bytes.first(kJournalMark.size()), kJournalMark))
    return std::nullopt;
  if (hash_bytes(bytes.first(kHashedHeaderBytes), offset) != number_at<std::uint64_t>(bytes, kHashedHeaderBytes))
    return std::nullopt;
  return JournalRecordHeader{.kind = number_at<JournalKind>(bytes, 4),
                             .bytes = number_at<std::uint64_t>(bytes, 8),
                             .hash = number_at<std::uint64_t>(bytes, 16)};
}

}  // namespace tpinfer
