// For libFuzzer: the bytes are a template, rendered with a small conversation. Good seeds are the templates of
// tests/data/templates. It must end in a text or a TemplateError, within the limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/jinja/template.hpp"
#include "text/utf8.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tpinfer;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  if (!is_valid_utf8(source)) return 0;
  static const Json kMessages = parse_json(
      R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "yo"}]}])",
      "fuzz");
  static const Json kTools =
      parse_json(R"([{"function": {"name": "f", "parameters": {"a": [1, 2.5, null]}}}])", "fuzz");
  const jinja::Variables variables = {{"messages", &kMessages}, {"tools", &kTools}};
  const jinja::Limits limits{.steps = 100'000, .bytes = std::size_t{4} << 20};
  try {
    const std::string text = jinja::Template(source, "fuzz")
                                 .render(
                                     variables, [](const std::string& format) { return format; }, limits);
    if (!is_valid_utf8(text)) __builtin_trap();
  } catch (const jinja::TemplateError&) {
  }
  return 0;
}
