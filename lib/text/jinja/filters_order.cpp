#include <algorithm>

#include "text/jinja/filters.hpp"
#include "text/jinja/text_parts.hpp"

namespace tpinfer::jinja::filters {
namespace {

struct Keyed {
  Value key;
  Value item;
};

std::vector<Value> sorted(std::vector<Keyed> rows, bool reverse, Budget& budget) {
  // Equal ones keep their order in either direction.
  std::stable_sort(rows.begin(), rows.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(b.key, a.key, "<", budget) < 0 : compare(a.key, b.key, "<", budget) < 0;
  });
  std::vector<Value> items;
  items.reserve(rows.size());
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return items;
}

// "a,b" sorts by a, then by b.
std::vector<AttributePath> key_paths(const Value* attribute, Budget& budget) {
  std::vector<AttributePath> paths;
  const Text* text = attribute ? attribute->as_text() : nullptr;
  if (!text) {
    paths.emplace_back(attribute, budget);
    return paths;
  }
  budget.work(text->bytes.size());
  for (const std::string_view part : split(text->bytes, ",", -1)) {
    const Value path{std::string(part)};
    paths.emplace_back(&path, budget);
  }
  return paths;
}

Value extreme(Interpreter& interpreter, const Value& value, const Arguments& arguments, bool largest) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  Budget& budget = interpreter.budget();
  const AttributePath path(bound[1], budget);
  const auto cursor = make_cursor(value, budget);
  std::optional<Keyed> best;
  for (Value item; cursor->next(item);) {
    Value key = path.of(interpreter, item);
    if (!bound.flag(0)) key = without_case(key, budget);
    const bool better =
        !best || (largest ? compare(key, best->key, ">", budget) > 0 : compare(key, best->key, "<", budget) < 0);
    if (better) best = Keyed{std::move(key), item};
  }
  return best ? best->item : Value::undefined("No aggregated item, sequence was empty.");
}

}  // namespace

Value sort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Budget& budget = interpreter.budget();
  const auto paths = key_paths(bound[2], budget);
  std::vector<Keyed> rows;
  for (Value& item : collect(value, budget)) {
    std::vector<Value> keys;
    for (const AttributePath& path : paths) {
      const Value key = path.of(interpreter, item);
      keys.push_back(bound.flag(1) ? key : without_case(key, budget));
    }
    rows.push_back({make_list(std::move(keys), budget), std::move(item)});
  }
  return make_list(sorted(std::move(rows), bound.flag(0), budget), budget);
}

Value dictsort(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Budget& budget = interpreter.budget();
  const std::string by = bound[1] ? bound.text(1) : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  const Dict* dict = value.as_dict();
  if (const auto* info = value.get<const UndefinedInfo>()) fail("{}", info->message);
  if (!dict) fail("'{}' object has no attribute 'items'", type_name(value));
  std::vector<Keyed> rows;
  for (const auto& [key, item] : dict->items) {
    const Value& by_what = by == "key" ? key : item;
    rows.push_back({bound.flag(0) ? by_what : without_case(by_what, budget), make_tuple({key, item}, budget)});
  }
  return make_list(sorted(std::move(rows), bound.flag(2), budget), budget);
}

Value min(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return extreme(interpreter, value, arguments, false);
}

Value max(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return extreme(interpreter, value, arguments, true);
}

}  // namespace tpinfer::jinja::filters
