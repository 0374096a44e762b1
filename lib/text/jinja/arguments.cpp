#include <algorithm>

#include "text/jinja/builtins.hpp"

namespace tpinfer::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size())
    fail("{}() takes at most {} arguments ({} given)", function, names.size(), arguments.positional.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = values_[static_cast<std::size_t>(found - names.begin())];
    if (slot) fail("{}() got multiple values for argument '{}'", function, name);
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i]) fail("{}() misses the argument '{}'", function, names.begin()[i]);
}

bool Bound::flag(std::size_t place, bool otherwise) const {
  return values_[place] ? truth(*values_[place]) : otherwise;
}

Int Bound::number(std::size_t place, Int otherwise) const {
  if (!given(place)) return otherwise;
  Int storage = 0;
  if (const Int* number = whole_number(*values_[place], storage)) return *number;
  fail("{}(): '{}' object cannot be interpreted as an integer", function_, type_name(*values_[place]));
}

const std::string& Bound::text(std::size_t place) const {
  if (const Text* text = values_[place]->as_text()) return text->bytes;
  fail("{}(): a str is needed, not '{}'", function_, type_name(*values_[place]));
}

}  // namespace tpinfer::jinja
