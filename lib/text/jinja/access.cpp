#include <algorithm>

#include "text/jinja/cursor.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/python_text.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

// As the reference names the type of an object in its messages.
std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.get<Namespace>()) return "jinja2.utils.Namespace object";
  return fmt::format("{} object", type_name(value));
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value no_element(const Value& object, const Value& key) {
  if (const Text* name = key.as_text()) return no_attribute(object, name->bytes);
  Int storage = 0;
  const Int* place = whole_number(key, storage);
  return Value::undefined(fmt::format("{} has no element {}", object_name(object),
                                      place ? repr(*place) : fmt::format("of the type {}", type_name(key))));
}

Value macro_attribute(const Value& object, const MacroObject& macro, std::string_view name) {
  if (name == "name") return macro.macro->name.empty() ? Value() : Value(macro.macro->name);
  static constexpr std::string_view kOthers[] = {"arguments", "catch_kwargs", "catch_varargs", "caller",
                                                 "explicit_caller"};
  if (std::ranges::find(kOthers, name) != std::end(kOthers))
    fail("the attribute '{}' of a macro is not supported", name);
  return no_attribute(object, name);
}

// A method or another attribute of the Python type, or nothing.
std::optional<Value> method_of(const Value& object, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__"))
    fail("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object));
  const Method method = find_method(object, name);
  switch (method.kind) {
    case MethodKind::none: return std::nullopt;
    case MethodKind::usable:
      return Value(std::make_shared<const Callable>(Callable{std::string(name), method.function, object}));
    case MethodKind::unsafe:
      return Value::undefined(
          fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
    case MethodKind::refused: break;
  }
  fail("the attribute '{}' of '{}' object is not supported", name, type_name(object));
}

// The place that an index means, or nothing outside of the sequence.
std::optional<Int> place_in(Int size, Int index) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? std::optional<Int>(index) : std::nullopt;
}

std::optional<Value> character_at(const Text& whole, Int index, Budget& budget) {
  const std::string& text = whole.bytes;
  budget.work(text.size());
  const Int count = index < 0 ? static_cast<Int>(character_count(text)) : 0;
  if (index < 0 && (index += count) < 0) return std::nullopt;
  if (index >= static_cast<Int>(text.size())) return std::nullopt;
  const std::size_t at = byte_of_character(text, static_cast<std::size_t>(index));
  if (at >= text.size()) return std::nullopt;
  return make_text(text.substr(at, code_point_at(text, at).size), budget, whole.safe);
}

// object[index], or nothing where Python raises IndexError or TypeError.
std::optional<Value> element_at(const Value& object, Int index, Budget& budget) {
  if (const Text* text = object.as_text()) return character_at(*text, index, budget);
  if (const auto* items = object.items()) {
    const auto place = place_in(static_cast<Int>(items->size()), index);
    return place ? std::optional((*items)[static_cast<std::size_t>(*place)]) : std::nullopt;
  }
  if (const auto* range = object.get<const Range>()) {
    const auto place = place_in(range->size, index);
    return place ? std::optional(Value::integer(range_item(*range, *place))) : std::nullopt;
  }
  return std::nullopt;
}

struct Bounds {
  Int start, stop, step, count;
};

constexpr Int kFarthest = Int{1} << 62;

// What Python's slice.indices() and len(range()) give.
Bounds slice_bounds(Int size, const Value* start, const Value* stop, const Value* step) {
  const auto number = [](const Value* bound, Int otherwise) {
    if (!bound || bound->is_none()) return otherwise;
    Int storage = 0;
    if (const auto* info = bound->get<const UndefinedInfo>()) fail("{}", info->message);
    if (const Int* given = whole_number(*bound, storage)) return std::clamp(*given, -kFarthest, kFarthest);
    fail("slice indices must be integers or None, not {}", type_name(*bound));
  };
  const Int stride = number(step, 1);
  if (stride == 0) fail("slice step cannot be zero");
  const bool forward = stride > 0;
  const Int low = forward ? 0 : -1;
  const Int high = forward ? size : size - 1;
  const auto clamp = [&](const Value* bound, Int otherwise) {
    if (!bound || bound->is_none()) return otherwise;
    Int place = number(bound, 0);
    if (place < 0) place += size;
    return std::clamp(place, low, high);
  };
  const Int first = clamp(start, forward ? low : high);
  const Int last = clamp(stop, forward ? high : low);
  const Int gap = forward ? last - first : first - last;
  const Int width = forward ? stride : -stride;
  return {first, last, stride, gap <= 0 ? 0 : (gap + width - 1) / width};
}

Value slice_text(const Text& whole, const Value* start, const Value* stop, const Value* step, Budget& budget) {
  const std::string& text = whole.bytes;
  budget.work(text.size());
  const Bounds bounds = slice_bounds(static_cast<Int>(character_count(text)), start, stop, step);
  if (bounds.step == 1) {
    const std::size_t begin = byte_of_character(text, static_cast<std::size_t>(bounds.start));
    const auto rest = std::string_view(text).substr(std::min(begin, text.size()));
    return make_text(std::string(rest.substr(0, byte_of_character(rest, static_cast<std::size_t>(bounds.count)))),
                     budget, whole.safe);
  }
  budget.make(text.size() * sizeof(std::size_t));
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).size) begins.push_back(at);
  std::string out;
  for (Int i = 0; i < bounds.count; ++i) {
    const std::size_t at = begins[static_cast<std::size_t>(bounds.start + i * bounds.step)];
    out += text.substr(at, code_point_at(text, at).size);
  }
  return make_text(std::move(out), budget, whole.safe);
}

}  // namespace

Value slice(const Value& object, const Value* start, const Value* stop, const Value* step, Budget& budget) {
  if (const auto* info = object.get<const UndefinedInfo>()) fail("{}", info->message);
  if (const Text* text = object.as_text()) return slice_text(*text, start, stop, step, budget);
  const auto* items = object.items();
  const auto* range = object.get<const Range>();
  if (!items && !range) fail("'{}' object is not subscriptable", type_name(object));
  const Int size = items ? static_cast<Int>(items->size()) : range->size;
  const Bounds bounds = slice_bounds(size, start, stop, step);
  if (range) {
    const auto number = [range](Int place) { return range_item(*range, place); };
    return Value(std::make_shared<const Range>(
        Range{number(bounds.start), number(bounds.stop), range->step * bounds.step, bounds.count}));
  }
  std::vector<Value> taken;
  for (Int i = 0; i < bounds.count; ++i)
    taken.push_back((*items)[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
  return object.as_list() ? make_list(std::move(taken), budget) : make_tuple(std::move(taken), budget);
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  budget_.work();
  if (const auto* info = object.get<const UndefinedInfo>()) fail("{}", info->message);
  if (auto* space = object.get<Namespace>()) {
    const Value* found = space->find(name);
    return found ? *found : no_attribute(object, name);
  }
  if (object.get<LoopState>()) return loop_attribute(object, name);
  if (const auto* macro = object.get<const MacroObject>()) return macro_attribute(object, *macro, name);
  if (object.get<Cursor>() || object.get<const Callable>() || object.holds<SelfReference>())
    fail("attributes of '{}' object are not supported", type_name(object));
  if (auto method = method_of(object, name)) return *method;
  if (const Dict* dict = object.as_dict())
    if (const Value* found = dict->find(name)) return *found;
  return no_attribute(object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  budget_.work();
  if (const auto* info = object.get<const UndefinedInfo>()) fail("{}", info->message);
  if (const Dict* dict = object.as_dict()) {
    if (!key.as_list() && !key.as_dict())  // these can be no keys
      if (const Value* found = dict->find(key, budget_)) return *found;
  } else {
    Int storage = 0;
    if (const Int* index = whole_number(key, storage))
      if (auto found = element_at(object, *index, budget_)) return *found;
  }
  if (const Text* name = key.as_text()) {
    if (object.get<Namespace>() || object.get<LoopState>() || object.get<const MacroObject>() || object.get<Cursor>() ||
        object.get<const Callable>() || object.holds<SelfReference>())
      return attribute(object, name->bytes);
    if (auto method = method_of(object, name->bytes)) return *method;
  }
  return no_element(object, key);
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const Text* text = container.as_text()) {
    const Text* part = item.as_text();
    if (!part) {
      if (const auto* info = item.get<const UndefinedInfo>()) fail("{}", info->message);
      fail("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    budget.work(text->bytes.size());
    return find_text(text->bytes, part->bytes, 0) != std::string::npos;
  }
  const auto* view = container.get<const DictView>();
  const Dict* dict = view && view->of == ViewOf::keys ? view->dict.get() : container.as_dict();
  if (dict) return dict->find(item, budget) != nullptr;
  if (!is_iterable(container)) fail("argument of type '{}' is not iterable", type_name(container));
  const auto cursor = make_cursor(container, budget);
  for (Value other; cursor->next(other);)
    if (equals(other, item, budget)) return true;
  return false;
}

}  // namespace tpinfer::jinja
