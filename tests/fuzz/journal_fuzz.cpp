// A journal. The first byte says what the rest is: the file itself, or (odd) the payloads of records, a byte for the
// kind and two for the length before each, which get right headers here. Reading must end in a sentence or in rows that
// belong to prompts.

#include <algorithm>
#include <vector>

#include "fuzz_folder.hpp"
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
  const auto path = fuzz::write("journal", {reinterpret_cast<const char*>(file.data()), file.size()});
  fuzz::may_refuse(ExitCode::input, [&] {
    auto content = read_journal(path, JournalRows::all, ExitCode::input);
    if (!content) return;
    fuzz::require(content->end <= file.size());
    for (const AnswerRow& answer : content->answers)
      fuzz::require(answer.prompt_index >= 0 &&
                    static_cast<std::size_t>(answer.prompt_index) < content->prompts.size());
    to_result(std::move(*content));
  });
  return 0;
}
