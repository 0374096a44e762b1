// For libFuzzer: a journal. The first byte says what the rest is: the file itself, or (odd) the payloads of records, a
// byte for the kind and two for the length before each, which get right headers here. Reading must end in an
// Error(input) or in rows that belong to prompts.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "core/file_handle.hpp"
#include "output/journal_reader.hpp"

namespace {

using namespace tpinfer;

std::vector<std::byte> framed(std::span<const std::byte> input) {
  const auto preamble = journal_preamble();
  std::vector<std::byte> file(preamble.begin(), preamble.end()), record;
  while (input.size() >= 3) {
    const auto kind = static_cast<JournalKind>(input[0]);
    const auto bytes = std::min<std::size_t>(
        std::to_integer<std::size_t>(input[1]) + 256 * std::to_integer<std::size_t>(input[2]), input.size() - 3);
    frame_journal_record(kind, input.subspan(3, bytes), file.size(), record);
    file.insert(file.end(), record.begin(), record.end());
    input = input.subspan(3 + bytes);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  const std::vector<std::byte> file = data[0] % 2 ? framed(input) : std::vector<std::byte>(input.begin(), input.end());
  const FileHandle fd(::memfd_create("journal", MFD_CLOEXEC));
  if (::write(fd.get(), file.data(), file.size()) != static_cast<ssize_t>(file.size())) return 0;
  try {
    auto content = read_journal(fd.get(), "fuzz", JournalRows::all, ExitCode::input);
    if (!content) return 0;
    if (content->end > file.size()) __builtin_trap();
    for (const AnswerRow& answer : content->answers)
      if (answer.prompt_index < 0 || static_cast<std::size_t>(answer.prompt_index) >= content->prompts.size())
        __builtin_trap();
    to_result(std::move(*content));
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) __builtin_trap();
  }
  return 0;
}
