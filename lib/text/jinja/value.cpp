#include "text/jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/cursor.hpp"
#include "text/jinja/objects.hpp"

namespace tpinfer::jinja {
namespace {

// Dictionaries of a few items are searched one by one.
constexpr std::size_t kFewItems = 8;

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth + 1;
}

void check_nesting(int depth) {
  if (depth > kMostNesting) fail("values are nested deeper than {} levels", kMostNesting);
}

bool is_number_kind(const Value& value) { return value.as_bool() || value.as_int() || value.as_real(); }

// Sign of a - b; exact, also where a double can not hold the whole number.
int compare_numbers(Int a, double b) {
  constexpr double kLimit = 170141183460469231731687303715884105728.0;  // 2^127
  if (b >= kLimit) return -1;
  if (b < -kLimit) return 1;
  const Int whole = static_cast<Int>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - static_cast<double>(whole);
  return rest > 0 ? -1 : (rest < 0 ? 1 : 0);
}

// `ordered` becomes false when one is no number (nan).
int compare_numbers(const Value& a, const Value& b, bool& ordered) {
  Int left_store = 0, right_store = 0;
  const Int* left = whole_number(a, left_store);
  const Int* right = whole_number(b, right_store);
  if (left && right) return *left < *right ? -1 : (*left > *right ? 1 : 0);
  const double x = left ? 0.0 : *a.as_real();
  const double y = right ? 0.0 : *b.as_real();
  ordered = x == x && y == y;
  if (!ordered) return 1;
  if (left) return compare_numbers(*left, y);
  if (right) return -compare_numbers(*right, x);
  return x < y ? -1 : (x > y ? 1 : 0);
}

// A whole number of more than 64 bits was read as a double, and its digits are lost. No one writes such a number with
// 40 digits, so larger ones are taken for what they are.
double checked_real(double number) {
  if (std::abs(number) >= 0x1p64 && std::abs(number) < 1e40)
    fail("the number {} of the context may have been a whole one of more than 64 bits, which is not supported", number);
  return number;
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equals(a[i], b[i], budget)) return false;
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key, budget);
    if (!other || !equals(value, *other, budget)) return false;
  }
  return true;
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size != b.size) return false;
  return a.size == 0 || (a.start == b.start && (a.size == 1 || a.step == b.step));
}

int compare_items(const std::vector<Value>& a, const std::vector<Value>& b, std::string_view op, Budget& budget) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!equals(a[i], b[i], budget)) return compare(a[i], b[i], op, budget);
  return a.size() < b.size() ? -1 : (a.size() > b.size() ? 1 : 0);
}

}  // namespace

Value Value::undefined(std::string message) {
  return Value(Storage(std::make_shared<const UndefinedInfo>(UndefinedInfo{std::move(message)})));
}

const std::vector<Value>* Value::items() const noexcept {
  if (const List* list = as_list()) return &list->items;
  if (const Tuple* tuple = as_tuple()) return &tuple->items;
  return nullptr;
}

Sequence::Sequence(std::vector<Value> elements) : items(std::move(elements)), depth(deepest(items)) {
  check_nesting(depth);
}

std::size_t Dict::place_of(std::string_view key) const {
  const auto matches = [this, key](std::size_t place) {
    const Text* text = items[place].first.as_text();
    return text && text->bytes == key;
  };
  if (index_.empty()) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (matches(i)) return i;
    return kAbsent;
  }
  const auto [first, last] = index_.equal_range(std::hash<std::string_view>{}(key));
  for (auto at = first; at != last; ++at)
    if (matches(at->second)) return at->second;
  return kAbsent;
}

std::size_t Dict::place_of(const Value& key, std::size_t hash, Budget& budget) const {
  if (index_.empty()) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (equals(items[i].first, key, budget)) return i;
    return kAbsent;
  }
  const auto [first, last] = index_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (equals(items[at->second].first, key, budget)) return at->second;
  return kAbsent;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const std::size_t place = place_of(key, hash_of(key, budget), budget);
  return place == kAbsent ? nullptr : &items[place].second;
}

const Value* Dict::find(std::string_view key) const {
  const std::size_t place = place_of(key);
  return place == kAbsent ? nullptr : &items[place].second;
}

void Dict::set(Value key, Value value, Budget& budget) {
  const std::size_t hash = hash_of(key, budget);
  depth = std::max({depth, depth_of(key) + 1, depth_of(value) + 1});
  check_nesting(depth);
  if (const std::size_t place = place_of(key, hash, budget); place != kAbsent) {
    items[place].second = std::move(value);
    return;
  }
  budget.make(sizeof(items[0]));
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() <= kFewItems) return;
  if (index_.empty())
    for (std::size_t i = 0; i + 1 < items.size(); ++i) index_.emplace(hash_of(items[i].first, budget), i);
  index_.emplace(hash, items.size() - 1);
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : items)
    if (key == name) return &value;
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* found = find(name)) {
    *found = std::move(value);
  } else {
    items.emplace_back(std::string(name), std::move(value));
  }
}

Value make_list(std::vector<Value> items, Budget& budget) {
  budget.make(items.size() * sizeof(Value));
  return Value(std::make_shared<const List>(std::move(items)));
}

Value make_tuple(std::vector<Value> items, Budget& budget) {
  budget.make(items.size() * sizeof(Value));
  return Value(std::make_shared<const Tuple>(std::move(items)));
}

const std::string& plain_text(const Value& value) {
  const Text* text = value.as_text();
  if (const auto* info = value.get<const UndefinedInfo>()) fail("{}", info->message);
  if (!text) fail("a str is needed, not '{}'", type_name(value));
  if (text->safe) fail("this is not supported for a text marked safe");
  return text->bytes;
}

Value make_text(std::string bytes, Budget& budget, bool safe) {
  budget.make(bytes.size());
  return Value(std::make_shared<const Text>(Text{std::move(bytes), safe}));
}

Value from_json(const Json& json, Budget& budget) {
  switch (json.type()) {
    case Json::value_t::null: return Value();
    case Json::value_t::boolean: return Value(json.get<bool>());
    case Json::value_t::number_integer: return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: return Value::integer(json.get<std::uint64_t>());
    case Json::value_t::number_float: return Value(checked_real(json.get<double>()));
    case Json::value_t::string: return make_text(json.get_ref<const std::string&>(), budget);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item, budget));
      return make_list(std::move(items), budget);
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items()) dict->set(Value(key), from_json(value, budget), budget);
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    default: fail("a value of JSON that no template can hold");
  }
}

int depth_of(const Value& value) {
  if (const List* list = value.as_list()) return list->depth;
  if (const Tuple* tuple = value.as_tuple()) return tuple->depth;
  if (const Dict* dict = value.as_dict()) return dict->depth;
  if (const auto* view = value.get<const DictView>()) return view->dict->depth + 1;
  if (const auto* cursor = value.get<Cursor>()) return cursor->depth();
  if (const auto* callable = value.get<const Callable>()) return depth_of(callable->self) + 1;
  if (const auto* loop = value.get<LoopState>()) return loop->depth();
  return 0;
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* flag = value.as_bool()) return *flag;
  if (const Int* number = value.as_int()) return *number != 0;
  if (const double* number = value.as_real()) return *number != 0;
  if (const Text* text = value.as_text()) return !text->bytes.empty();
  if (const auto* items = value.items()) return !items->empty();
  if (const Dict* dict = value.as_dict()) return !dict->items.empty();
  if (const auto* range = value.get<const Range>()) return range->size != 0;
  if (const auto* view = value.get<const DictView>()) return !view->dict->items.empty();
  return true;
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"Undefined",
                                                "NoneType",
                                                "bool",
                                                "int",
                                                "float",
                                                "str",
                                                "list",
                                                "tuple",
                                                "dict",
                                                "range",
                                                "dict_view",
                                                "Namespace",
                                                "generator",
                                                "function",
                                                "Macro",
                                                "LoopContext",
                                                "TemplateReference"};
  if (const auto* view = value.get<const DictView>()) {
    if (view->of == ViewOf::keys) return "dict_keys";
    return view->of == ViewOf::values ? "dict_values" : "dict_items";
  }
  return kNames[value.storage().index()];
}

const Int* whole_number(const Value& value, Int& storage) {
  if (const Int* number = value.as_int()) return number;
  const bool* flag = value.as_bool();
  if (!flag) return nullptr;
  storage = *flag ? 1 : 0;
  return &storage;
}

bool equals(const Value& a, const Value& b, Budget& budget) {
  budget.work();
  if (is_number_kind(a) && is_number_kind(b)) {
    bool ordered = true;
    const int sign = compare_numbers(a, b, ordered);
    return ordered && sign == 0;
  }
  if (a.storage().index() != b.storage().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (const Text* text = a.as_text()) {
    budget.work(text->bytes.size());
    return text->bytes == b.as_text()->bytes;
  }
  if (const auto* items = a.items()) return equal_items(*items, *b.items(), budget);
  if (const Dict* dict = a.as_dict()) return equal_dicts(*dict, *b.as_dict(), budget);
  if (const auto* range = a.get<const Range>()) return equal_ranges(*range, *b.get<const Range>());
  if (const auto* space = a.get<Namespace>()) return space == b.get<Namespace>();
  if (const auto* cursor = a.get<Cursor>()) return cursor == b.get<Cursor>();
  fail("comparing two of the type {} is not supported", type_name(a));
}

int compare(const Value& a, const Value& b, std::string_view op, Budget& budget) {
  budget.work();
  for (const Value* value : {&a, &b})
    if (const auto* info = value->get<const UndefinedInfo>()) fail("{}", info->message);
  if (is_number_kind(a) && is_number_kind(b)) {
    bool ordered = true;
    const int sign = compare_numbers(a, b, ordered);
    if (!ordered) fail("ordering nan is not supported");
    return sign;
  }
  const Text* left = a.as_text();
  const Text* right = b.as_text();
  if (left && right) {
    budget.work(std::min(left->bytes.size(), right->bytes.size()));
    return left->bytes.compare(right->bytes);  // the order of UTF-8 bytes is the order of characters
  }
  if ((a.as_list() && b.as_list()) || (a.as_tuple() && b.as_tuple()))
    return compare_items(*a.items(), *b.items(), op, budget);
  fail("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
}

std::size_t hash_of(const Value& value, Budget& budget) {
  budget.work();
  if (const Text* text = value.as_text()) return std::hash<std::string_view>{}(text->bytes);
  if (value.is_none() || value.is_undefined()) return 1;
  Int storage = 0;
  if (const Int* number = whole_number(value, storage)) return std::hash<double>{}(static_cast<double>(*number));
  if (const double* number = value.as_real()) return std::hash<double>{}(*number);
  if (const Tuple* tuple = value.as_tuple()) {
    std::size_t hash = 17;
    for (const Value& item : tuple->items) hash = hash * 31 + hash_of(item, budget);
    return hash;
  }
  fail("unhashable type: '{}'", type_name(value));
}

}  // namespace tpinfer::jinja
