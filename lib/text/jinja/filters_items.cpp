#include <algorithm>

#include "text/jinja/filters.hpp"
#include "text/jinja/python_text.hpp"

namespace tpinfer::jinja::filters {
namespace {

// Items that were worked out at once, for filters that the reference has as generators.
class ListCursor final : public Cursor {
 public:
  explicit ListCursor(const Value& list) : Cursor(depth_of(list) + 1), list_(list) {}
  bool next(Value& item) override {
    const auto& items = *list_.items();
    if (at_ >= items.size()) return false;
    item = items[at_++];
    return true;
  }

 private:
  Value list_;
  std::size_t at_ = 0;
};

Value generated(std::vector<Value> items, Budget& budget) {
  return Value(std::shared_ptr<Cursor>(std::make_shared<ListCursor>(make_list(std::move(items), budget))));
}

}  // namespace

Value length(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  if (auto* loop = value.get<LoopState>()) return Value::integer(loop->total(interpreter.budget()));
  if (const auto length = length_of(value, interpreter.budget())) return Value::integer(*length);
  fail("object of type '{}' has no len()", type_name(value));
}

Value otherwise(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  if (!value.is_undefined() && !(bound.flag(1) && !truth(value))) return value;
  return bound[0] ? *bound[0] : Value(std::string());
}

Value first(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Value item;
  if (make_cursor(value, interpreter.budget())->next(item)) return item;
  return Value::undefined("No first item, sequence was empty.");
}

Value last(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  const auto cursor = make_reverse_cursor(value, interpreter.budget());
  if (!cursor) fail("'{}' object is not reversible", type_name(value));
  Value item;
  return cursor->next(item) ? item : Value::undefined("No last item, sequence was empty.");
}

Value list(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return make_list(collect(value, interpreter.budget()), interpreter.budget());
}

Value items(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  const Dict* dict = value.as_dict();
  if (!dict && !value.is_undefined()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (dict)
    for (const auto& [key, item] : dict->items) pairs.push_back(make_tuple({key, item}, interpreter.budget()));
  return generated(std::move(pairs), interpreter.budget());
}

Value reverse(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  Budget& budget = interpreter.budget();
  if (value.as_text()) return make_text(reversed(plain_text(value)), budget);
  if (auto cursor = make_reverse_cursor(value, budget)) return Value(std::move(cursor));
  std::vector<Value> items = collect(value, budget);
  std::reverse(items.begin(), items.end());
  return make_list(std::move(items), budget);
}

Value batch(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  Budget& budget = interpreter.budget();
  const Int count = bound.number(0, 0);
  if (count < 1) fail("batches of {} items are not supported", repr(count));
  std::vector<Value> batches, line;
  const std::vector<Value> all = collect(value, budget);
  for (const Value& item : all) {
    if (static_cast<Int>(line.size()) == count) batches.push_back(make_list(std::exchange(line, {}), budget));
    line.push_back(item);
  }
  if (!line.empty()) {
    if (bound.given(1))
      for (; static_cast<Int>(line.size()) < count; budget.make(sizeof(Value))) line.push_back(*bound[1]);
    batches.push_back(make_list(std::move(line), budget));
  }
  return generated(std::move(batches), budget);
}

Value slice(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  Budget& budget = interpreter.budget();
  const Int count = bound.number(0, 0);
  if (count < 1) fail("{} slices are not supported", repr(count));
  const std::vector<Value> all = collect(value, budget);
  const Int size = static_cast<Int>(all.size());
  std::vector<Value> slices;
  std::size_t at = 0;
  for (Int n = 0; n < count; ++n) {
    const bool longer = n < size % count;
    const auto end = at + static_cast<std::size_t>(size / count + (longer ? 1 : 0));
    std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.given(1) && !longer) part.push_back(*bound[1]);
    slices.push_back(make_list(std::move(part), budget));
    at = end;
  }
  return generated(std::move(slices), budget);
}

Value attr(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  if (value.as_dict()) {  // attributes only, no keys
    const Method method = find_method(value, bound.text(0));
    if (method.kind == MethodKind::none)
      return Value::undefined(fmt::format("'dict object' has no attribute '{}'", bound.text(0)));
  }
  return interpreter.attribute(value, bound.text(0));
}

}  // namespace tpinfer::jinja::filters
