#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/json.hpp"

namespace tpinfer::jinja {

struct Program;

/// Why a template has no text. `what()` is the template's own message alone where it called raise_exception, and
/// otherwise names the template, the line and the expression.
class TemplateError : public Error {
 public:
  enum class Kind { syntax, runtime, raised };
  TemplateError(Kind kind, const std::string& what) : Error(ExitCode::input, what), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/// What one rendering may use. A context adds to both in proportion to its size.
struct Limits {
  std::size_t steps = 20'000'000;
  std::size_t bytes = std::size_t{256} << 20;  // of all texts and lists that it makes
};

/// What the template sees; of two of one name the later counts.
using Variables = std::vector<std::pair<std::string_view, const Json*>>;

/// A compiled template: a subset of Jinja that gives the text that Python's jinja2 gives in the environment of
/// Hugging Face's chat templates (sandboxed, trim_blocks, lstrip_blocks, break and continue, generation blocks, its
/// own tojson, raise_exception, strftime_now), or fails. What is beyond the subset is refused, never rendered
/// otherwise. Constant after it is made: any number of threads may render at once.
class Template {
 public:
  /// `name` begins the complaints. Throws TemplateError for a syntax error, Error(input) for invalid UTF-8 or a
  /// template of more than a megabyte.
  Template(std::string_view source, std::string name);

  /// `format_now` is what strftime_now does. Throws TemplateError.
  std::string render(const Variables& variables,
                     const std::function<std::string(const std::string& format)>& format_now,
                     const Limits& limits = {}) const;

 private:
  std::string name_;
  std::shared_ptr<const Program> program_;
};

}  // namespace tpinfer::jinja
