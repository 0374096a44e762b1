#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpinfer {

/// The journal's bytes: a preamble (mark, version), then records, each with a header that says where it ends and the
/// hash of what it holds. Both hashes depend on the record's place, so that bytes which were moved are no record.
inline constexpr std::size_t kJournalPreambleBytes = 16;
inline constexpr std::uint32_t kJournalVersion = 1;

enum class JournalKind : std::uint32_t {
  head = 1,
  attempt = 2,
  prompt = 3,
  answer = 4,
  scores = 5,
  failed = 6,
  end = 7
};

struct JournalRecordHeader {
  JournalKind kind{};
  std::uint64_t bytes = 0;  ///< of the payload
  std::uint64_t hash = 0;   ///< of the payload
};
inline constexpr std::size_t kJournalHeaderBytes = 32;
/// The first bytes of each header.
inline constexpr std::array<std::byte, 4> kJournalMark{std::byte{0x7e}, std::byte{'T'}, std::byte{'J'}, std::byte{'r'}};

/// The preamble of this version.
std::array<std::byte, kJournalPreambleBytes> journal_preamble();
/// The version that a preamble names; nothing when it is none.
std::optional<std::uint32_t> journal_version(std::span<const std::byte> preamble);

/// The whole record that begins at `offset` of the file, into `out`, whose memory is reused.
void frame_journal_record(JournalKind kind, std::span<const std::byte> payload, std::uint64_t offset,
                          std::vector<std::byte>& out);
/// The header in these 32 bytes at `offset`; nothing when they are none.
std::optional<JournalRecordHeader> parse_journal_header(std::span<const std::byte> bytes, std::uint64_t offset);
std::uint64_t journal_payload_hash(std::span<const std::byte> payload, std::uint64_t offset);

}  // namespace tpinfer
