#include <algorithm>
#include <span>

#include "text/jinja/interpreter.hpp"

namespace tpinfer::jinja {
namespace {

Value dict_get(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  if (!arguments.named.empty()) fail("get() takes no keyword arguments");
  if (const Value* found = self.as_dict()->find(*bound[0], interpreter.budget())) return *found;
  return bound[1] ? *bound[1] : Value();
}

template <ViewOf kOf>
Value dict_view(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  return Value(std::make_shared<const DictView>(DictView{std::get<std::shared_ptr<const Dict>>(self.storage()), kOf}));
}

Value copy(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;  // nothing can change either
}

Value count_item(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  Int count = 0;
  const auto cursor = make_cursor(self, interpreter.budget());
  for (Value item; cursor->next(item);) count += equals(item, *bound[0], interpreter.budget()) ? 1 : 0;
  return Value::integer(count);
}

Value index_of_item(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value"}, 1);
  const auto cursor = make_cursor(self, interpreter.budget());
  Int place = 0;
  for (Value item; cursor->next(item); ++place)
    if (equals(item, *bound[0], interpreter.budget())) return Value::integer(place);
  fail("the value is not in the {}", type_name(self));
}

using Row = std::pair<std::string_view, Callable::Function>;
constexpr Row kDictMethods[] = {{"get", dict_get},
                                {"items", dict_view<ViewOf::items>},
                                {"keys", dict_view<ViewOf::keys>},
                                {"values", dict_view<ViewOf::values>},
                                {"copy", copy}};
constexpr Row kListMethods[] = {{"count", count_item}, {"index", index_of_item}, {"copy", copy}};
constexpr Row kTupleMethods[] = {{"count", count_item}, {"index", index_of_item}};

// What changes a list or a dict: hidden by the reference's sandbox.
constexpr std::string_view kListUnsafe[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
constexpr std::string_view kDictUnsafe[] = {"clear", "pop", "popitem", "setdefault", "update"};

constexpr std::string_view kDictRefused[] = {"fromkeys"};
constexpr std::string_view kIntRefused[] = {"as_integer_ratio", "bit_count",  "bit_length", "conjugate",
                                            "denominator",      "from_bytes", "imag",       "is_integer",
                                            "numerator",        "real",       "to_bytes"};
constexpr std::string_view kFloatRefused[] = {"as_integer_ratio", "conjugate", "fromhex",    "hex", "imag",
                                              "is_integer",       "real",      "from_number"};
constexpr std::string_view kRangeRefused[] = {"start", "stop", "step"};
constexpr std::string_view kViewRefused[] = {"isdisjoint", "mapping"};

struct Type {
  std::span<const Row> methods;
  std::span<const std::string_view> unsafe;
  std::span<const std::string_view> refused;
};

Type type_of(const Value& value) {
  if (value.as_dict()) return {kDictMethods, kDictUnsafe, kDictRefused};
  if (value.as_list()) return {kListMethods, kListUnsafe, {}};
  if (value.as_tuple()) return {kTupleMethods, {}, {}};
  if (value.get<const Range>()) return {kTupleMethods, {}, kRangeRefused};
  if (value.get<const DictView>()) return {{}, {}, kViewRefused};
  if (value.as_int() || value.as_bool()) return {{}, {}, kIntRefused};
  if (value.as_real()) return {{}, {}, kFloatRefused};
  return {};
}

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  if (value.as_text()) {
    plain_text(value);  // one marked safe has other methods
    return find_text_method(name);
  }
  const Type type = type_of(value);
  const auto found = std::ranges::find(type.methods, name, [](const Row& row) { return row.first; });
  if (found != type.methods.end()) return {MethodKind::usable, found->second};
  if (std::ranges::find(type.unsafe, name) != type.unsafe.end()) return {MethodKind::unsafe, nullptr};
  const bool refused = std::ranges::find(type.refused, name) != type.refused.end();
  return {refused ? MethodKind::refused : MethodKind::none, nullptr};
}

}  // namespace tpinfer::jinja
