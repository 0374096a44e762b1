#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/objects.hpp"

namespace tpinfer::jinja {

/// `value | name(arguments)`. Known to the reference but not supported where `apply` is null.
struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value& value, const Arguments&);
};

/// `value is name(arguments)`.
struct Test {
  std::string_view name;
  bool (*apply)(Interpreter&, const Value& value, const Arguments&);
};

/// Null: the reference has none of this name.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
/// Says that a filter or test does not exist or is not supported.
std::string unknown_message(const Expr& expr);

/// What the reference defines besides the variables of the context: range, dict, namespace ...; null for others.
const Value* find_global(std::string_view name);

enum class MethodKind { none, usable, unsafe, refused };
struct Method {
  MethodKind kind = MethodKind::none;
  Callable::Function function = nullptr;
};
/// The attribute that Python's type of `value` has under this name: a method that can be called, one that the
/// reference's sandbox hides (`unsafe`), or one that is not supported.
Method find_method(const Value& value, std::string_view name);
Method find_text_method(std::string_view name);

/// The arguments of a call sorted under the names of the parameters.
class Bound {
 public:
  /// Fails for too many, for an unknown name, for one given twice, and when one of the first `required` is absent.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
        std::size_t required = 0);
  /// Null when it was not given.
  const Value* operator[](std::size_t place) const { return values_[place]; }
  bool flag(std::size_t place, bool otherwise = false) const;
  /// The number, or `otherwise` when absent or none.
  Int number(std::size_t place, Int otherwise) const;
  const std::string& text(std::size_t place) const;
  bool given(std::size_t place) const { return values_[place] && !values_[place]->is_none(); }

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace tpinfer::jinja
