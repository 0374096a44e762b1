#include "text/jinja/template.hpp"

#include "text/jinja/interpreter.hpp"
#include "text/jinja/lexer.hpp"
#include "text/jinja/parser.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// A context earns more steps and bytes: a long conversation may be copied and looked at many times.
constexpr std::size_t kStepsPerByte = 16;
constexpr std::size_t kBytesPerByte = 64;

[[noreturn]] void refuse(const Fault& fault, const std::string& name) {
  using Kind = TemplateError::Kind;
  if (fault.kind() == FaultKind::raised) throw TemplateError(Kind::raised, fault.what());
  const std::string line = fault.line() > 0 ? fmt::format(", line {}", fault.line()) : "";
  const std::string place = fault.expression().empty() ? "" : fmt::format(", in `{}`", fault.expression());
  throw TemplateError(fault.kind() == FaultKind::syntax ? Kind::syntax : Kind::runtime,
                      fmt::format("{}{}{}: {}", name, line, place, fault.what()));
}

std::size_t bytes_in(const Json& json) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  std::size_t bytes = sizeof(Value);
  if (json.is_object())
    for (const auto& [key, value] : json.items()) bytes += key.size() + bytes_in(value);
  if (json.is_array())
    for (const Json& value : json) bytes += bytes_in(value);
  return bytes;
}

}  // namespace

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  if (source.size() > kMostBytes)
    fail_input("{}: {} bytes, and a template may have no more than {}", name_, source.size(), kMostBytes);
  if (const std::size_t at = find_invalid_utf8(source); at != std::string_view::npos)
    fail_input("{}: not valid UTF-8 at byte {}", name_, at);
  try {
    auto program = std::make_shared<Program>(Parser(normalize_newlines(source)).parse());
    analyse(*program);
    program_ = std::move(program);
  } catch (const Fault& fault) {
    refuse(fault, name_);
  }
}

std::string Template::render(const Variables& variables,
                             const std::function<std::string(const std::string& format)>& format_now,
                             const Limits& limits) const {
  std::size_t size = 0;
  for (const auto& [name, value] : variables) size += bytes_in(*value);
  Budget budget(limits.steps + kStepsPerByte * size, limits.bytes + kBytesPerByte * size);
  try {
    auto context = std::make_shared<Dict>();
    for (const auto& [name, value] : variables)
      context->set(Value(std::string(name)), from_json(*value, budget), budget);
    return Interpreter(*program_, std::move(context), format_now, budget).render();
  } catch (const Fault& fault) {
    refuse(fault, name_);
  }
}

}  // namespace tpinfer::jinja
