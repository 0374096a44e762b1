// The first byte chooses the format (automatic, text, JSONL, an OpenAI batch, CSV), the rest is a prompt file. It must
// end in a sentence or in records, each with a prompt in valid UTF-8 or with its fault.

#include "fuzz_folder.hpp"
#include "prompts/prompt_stream.hpp"
#include "text/utf8.hpp"

namespace {

using namespace tpinfer;

const std::filesystem::path& chat_template() {
  static const std::filesystem::path kFile = fuzz::write(
      "chat_template.jinja", "{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% endfor %}{{ tools | length }}");
  return kFile;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  PromptsJob job;
  job.format = static_cast<PromptFormat>(data[0] % 5);
  job.chat_template = chat_template().string();
  job.files = {fuzz::write("prompts", fuzz::text_of(data, size).substr(1)).string()};
  fuzz::may_refuse(ExitCode::input, [&] {
    const ChatPrompts chat(job, fuzz::folder());
    PromptStream stream(job, chat);
    for (RawPrompt raw; stream.next(raw); raw = {}) {
      const PromptRecord record = stream.read(std::move(raw));
      fuzz::require(is_valid_utf8(record.error) && is_valid_utf8(record.id));
      if (record.error.empty()) fuzz::require(is_valid_utf8(record.text) && is_valid_utf8(record.meta));
    }
    stream.check_not_empty();
  });
  return 0;
}
