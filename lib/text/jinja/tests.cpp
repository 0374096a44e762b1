#include <algorithm>
#include <string>

#include "text/jinja/interpreter.hpp"
#include "text/jinja/text_parts.hpp"

namespace tpinfer::jinja {
namespace {

void take_nothing(const Arguments& arguments) { const Bound bound("test", arguments, {}); }

// Tests of the kind of a value.
template <bool (*kHolds)(const Value&)>
bool kind(Interpreter&, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  return kHolds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.as_bool(); }
bool is_true(const Value& value) { return value.as_bool() && *value.as_bool(); }
bool is_false(const Value& value) { return value.as_bool() && !*value.as_bool(); }
bool is_integer(const Value& value) { return value.as_int(); }
bool is_float(const Value& value) { return value.as_real(); }
bool is_number(const Value& value) { return value.as_bool() || value.as_int() || value.as_real(); }
bool is_string(const Value& value) { return value.as_text(); }
bool is_escaped(const Value& value) { return value.as_text() && value.as_text()->safe; }
bool is_mapping(const Value& value) { return value.as_dict(); }
bool is_sequence(const Value& value) {
  return value.is_undefined() || value.as_text() || value.items() || value.as_dict() || value.get<const Range>();
}
bool can_iterate(const Value& value) { return is_iterable(value) || value.get<LoopState>(); }
bool is_callable(const Value& value) {
  return value.is_undefined() || value.get<const Callable>() || value.get<const MacroObject>() ||
         value.get<LoopState>();
}

bool remainder_is(Interpreter& interpreter, const Value& value, const Value& divisor, Int wanted) {
  Budget& budget = interpreter.budget();
  if (value.as_text()) fail("a number is needed, not 'str'");  // where % formats
  return equals(apply_operator("%", value, divisor, budget), Value::integer(wanted), budget);
}

bool odd(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  return remainder_is(interpreter, value, Value::integer(2), 1);
}

bool even(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  return remainder_is(interpreter, value, Value::integer(2), 0);
}

bool divisibleby(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return remainder_is(interpreter, value, *bound[0], 0);
}

template <bool kUpper>
bool cased(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  return has_case(str(value, interpreter.budget()), kUpper);
}

bool in(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"}, 1);
  return contains(*bound[0], value, interpreter.budget());
}

template <bool kEqual>
bool equal(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("eq", arguments, {"other"}, 1);
  return equals(value, *bound[0], interpreter.budget()) == kEqual;
}

enum class Order { less, at_most, greater, at_least };

template <Order kOrder>
bool ordered(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  static constexpr std::string_view kSigns[] = {"<", "<=", ">", ">="};
  const int sign = compare(value, *bound[0], kSigns[static_cast<int>(kOrder)], interpreter.budget());
  switch (kOrder) {
    case Order::less: return sign < 0;
    case Order::at_most: return sign <= 0;
    case Order::greater: return sign > 0;
    case Order::at_least: return sign >= 0;
  }
  return false;
}

// Only of values that Python has one object of; whether two equal texts are one object is its own affair.
bool sameas(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  for (const Value* side : {&value, bound[0]}) {
    if (side->is_none()) return value.is_none() && bound[0]->is_none();
    if (side->as_bool()) return value.as_bool() && bound[0]->as_bool() && *value.as_bool() == *bound[0]->as_bool();
  }
  fail("the test 'sameas' is supported for none, true and false only");
}

bool names_filter(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  hash_of(value, interpreter.budget());  // fails for what can be no key
  return value.as_text() && find_filter(value.as_text()->bytes);
}

bool names_test(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  take_nothing(arguments);
  hash_of(value, interpreter.budget());  // fails for what can be no key
  return value.as_text() && find_test(value.as_text()->bytes);
}

constexpr Test kTests[] = {
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisibleby},
    {"defined", kind<is_defined>},
    {"undefined", kind<is_undefined>},
    {"filter", names_filter},
    {"test", names_test},
    {"none", kind<is_none>},
    {"boolean", kind<is_boolean>},
    {"false", kind<is_false>},
    {"true", kind<is_true>},
    {"integer", kind<is_integer>},
    {"float", kind<is_float>},
    {"lower", cased<false>},
    {"upper", cased<true>},
    {"string", kind<is_string>},
    {"mapping", kind<is_mapping>},
    {"number", kind<is_number>},
    {"sequence", kind<is_sequence>},
    {"iterable", kind<can_iterate>},
    {"callable", kind<is_callable>},
    {"sameas", sameas},
    {"escaped", kind<is_escaped>},
    {"in", in},
    {"==", equal<true>},
    {"eq", equal<true>},
    {"equalto", equal<true>},
    {"!=", equal<false>},
    {"ne", equal<false>},
    {"<", ordered<Order::less>},
    {"lt", ordered<Order::less>},
    {"lessthan", ordered<Order::less>},
    {"<=", ordered<Order::at_most>},
    {"le", ordered<Order::at_most>},
    {">", ordered<Order::greater>},
    {"gt", ordered<Order::greater>},
    {"greaterthan", ordered<Order::greater>},
    {">=", ordered<Order::at_least>},
    {"ge", ordered<Order::at_least>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::ranges::find(kTests, name, &Test::name);
  return found == std::end(kTests) ? nullptr : &*found;
}

}  // namespace tpinfer::jinja
