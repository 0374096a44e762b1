// The bytes are a template, rendered with a small conversation. It must end in a text or a TemplateError, within the
// limits.

#include "fuzz_folder.hpp"
#include "text/jinja/template.hpp"
#include "text/utf8.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  const std::string_view source = fuzz::text_of(data, size);
  if (!is_valid_utf8(source)) return 0;
  static const Json kMessages = parse_json(
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "yo"}]}])",
      "fuzz");
  static const Json kTools =
      parse_json(R"([{"function": {"name": "f", "parameters": {"a": [1, 2.5, null]}}}])", "fuzz");
  const jinja::Variables variables = {{"messages", &kMessages}, {"tools", &kTools}};
  const jinja::Limits limits{.steps = 100'000, .bytes = std::size_t{4} << 20};
  const auto clock = [](const std::string& format) { return format; };
  try {
    fuzz::require(is_valid_utf8(jinja::Template(source, "fuzz").render(variables, clock, limits)));
  } catch (const jinja::TemplateError&) {
  }
  return 0;
}
