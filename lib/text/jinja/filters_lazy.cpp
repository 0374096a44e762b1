#include <algorithm>
#include <functional>
#include <optional>

#include "text/jinja/filters.hpp"

namespace tpinfer::jinja::filters {
namespace {

// Gives what `step` makes of each item; an item that it makes nothing of is left out. Nothing is worked out before it
// is asked for.
class StepCursor final : public Cursor {
 public:
  using Step = std::function<std::optional<Value>(const Value& item)>;
  StepCursor(const Value& source, int depth, Budget& budget, Step step)
      : Cursor(depth), source_(source), budget_(budget), step_(std::move(step)) {}

  bool next(Value& item) override {
    if (!cursor_) {
      if (!truth(source_)) return false;
      cursor_ = make_cursor(source_, budget_);
    }
    for (Value candidate; cursor_->next(candidate);) {
      budget_.work();
      if (auto made = step_(candidate)) {
        item = std::move(*made);
        return true;
      }
    }
    return false;
  }

 private:
  Value source_;
  std::shared_ptr<Cursor> cursor_;
  Budget& budget_;
  Step step_;
};

int depth_of_all(const Value& value, const Arguments& arguments) {
  int depth = depth_of(value);
  for (const Value& argument : arguments.positional) depth = std::max(depth, depth_of(argument));
  for (const auto& [name, argument] : arguments.named) depth = std::max(depth, depth_of(argument));
  return depth + 1;
}

Value lazily(Interpreter& interpreter, const Value& value, const Arguments& arguments, StepCursor::Step step) {
  return Value(std::shared_ptr<Cursor>(
      std::make_shared<StepCursor>(value, depth_of_all(value, arguments), interpreter.budget(), std::move(step))));
}

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

std::string name_of(const Value& value, std::string_view what) {
  const Text* text = value.as_text();
  if (!text) fail("the name of a {} must be a str, not '{}'", what, type_name(value));
  return text->bytes;
}

Value map_attribute(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("map", arguments, {"attribute", "default"});
  const bool has_default = bound.given(1);
  const Value missing = has_default ? *bound[1] : Value();
  return lazily(interpreter, value, arguments,
                [&interpreter, path = AttributePath(bound[0], interpreter.budget()), has_default,
                 missing](const Value& item) -> std::optional<Value> {
                  return path.of(interpreter, item, has_default ? &missing : nullptr);
                });
}

// select, reject and, with the name of an attribute first, selectattr and rejectattr.
Value choose(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool by_attribute, bool wanted) {
  const std::size_t skipped = by_attribute ? 1 : 0;
  const auto& given = arguments.positional;
  if (given.size() < skipped) fail("Missing parameter for attribute name");
  const AttributePath path(by_attribute ? &given[0] : nullptr, interpreter.budget());
  if (given.size() == skipped)
    return lazily(interpreter, value, arguments,
                  [&interpreter, path, wanted](const Value& item) -> std::optional<Value> {
                    if (truth(path.of(interpreter, item)) == wanted) return item;
                    return std::nullopt;
                  });
  const std::string name = name_of(given[skipped], "test");
  return lazily(interpreter, value, arguments,
                [&interpreter, path, wanted, name, test = find_test(name),
                 rest = without_first(arguments, skipped + 1)](const Value& item) -> std::optional<Value> {
                  if (!test) fail("No test named '{}'.", name);
                  if (!test->apply) fail("the test '{}' is not supported", name);
                  if (test->apply(interpreter, path.of(interpreter, item), rest) == wanted) return item;
                  return std::nullopt;
                });
}

}  // namespace

Value map(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const bool by_attribute =
      std::ranges::any_of(arguments.named, [](const auto& item) { return item.first == "attribute"; });
  if (arguments.positional.empty() && by_attribute) return map_attribute(interpreter, value, arguments);
  if (arguments.positional.empty()) fail("map requires a filter argument");
  const std::string name = name_of(arguments.positional[0], "filter");
  return lazily(interpreter, value, arguments,
                [&interpreter, name, filter = find_filter(name),
                 rest = without_first(arguments, 1)](const Value& item) -> std::optional<Value> {
                  if (!filter) fail("No filter named '{}'.", name);
                  if (!filter->apply) fail("the filter '{}' is not supported", name);
                  return filter->apply(interpreter, item, rest);
                });
}

Value select(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return choose(interpreter, value, arguments, false, true);
}
Value reject(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return choose(interpreter, value, arguments, false, false);
}
Value selectattr(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return choose(interpreter, value, arguments, true, true);
}
Value rejectattr(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return choose(interpreter, value, arguments, true, false);
}

// The first of those that are equal; lazy like the others.
Value unique(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  auto seen = std::make_shared<Dict>();
  if (!is_iterable(value)) fail("'{}' object is not iterable", type_name(value));
  return lazily(interpreter, value, arguments,
                [&interpreter, seen, path = AttributePath(bound[1], interpreter.budget()),
                 sensitive = bound.flag(0)](const Value& item) -> std::optional<Value> {
                  Budget& budget = interpreter.budget();
                  Value key = path.of(interpreter, item);
                  if (!sensitive) key = without_case(key, budget);
                  if (seen->find(key, budget)) return std::nullopt;
                  seen->set(std::move(key), Value(), budget);
                  return item;
                });
}

}  // namespace tpinfer::jinja::filters
