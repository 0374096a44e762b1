#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/filters.hpp"
#include "text/jinja/literal.hpp"

namespace tpinfer::jinja::filters {
namespace {

void refuse_undefined(const Value& value) {
  if (const auto* info = value.get<const UndefinedInfo>()) fail("{}", info->message);
}

// int() of a float.
Int truncate(double number) {
  if (std::isinf(number)) fail("cannot convert float infinity to integer");
  if (std::isnan(number)) fail("cannot convert float NaN to integer");
  if (std::abs(number) >= 0x1p126) fail("whole numbers beyond 127 bits are not supported");
  return static_cast<Int>(number);
}

// float(value), or nothing where Python raises TypeError or ValueError.
std::optional<double> float_of(const Value& value) {
  Int storage = 0;
  if (const Int* number = whole_number(value, storage)) return static_cast<double>(*number);
  if (const double* number = value.as_real()) return *number;
  if (const Text* text = value.as_text()) return parse_float(text->bytes);
  refuse_undefined(value);
  return std::nullopt;
}

// To the even neighbour on a tie, exactly as the decimal digits say.
double round_digits(double number, Int digits) {
  if (!std::isfinite(number) || digits > 300) return number;
  if (digits < 0) fail("rounding a float to tens is not supported");
  std::array<char, 700> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), number);
  return std::strtod(buffer.data(), nullptr);
}

Int power_of_ten(Int exponent) {
  if (exponent > 37) fail("whole numbers beyond 127 bits are not supported");
  Int power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

// A whole number rounded to tens, hundreds ...: to the even one on a tie.
Int round_whole(Int number, Int digits) {
  if (digits >= 0) return number;
  const Int unit = power_of_ten(-digits);
  Int rest = number % unit;
  if (rest < 0) rest += unit;
  const Int down = number - rest;
  const bool up = 2 * rest > unit || (2 * rest == unit && (down / unit) % 2 != 0);
  return up ? down + unit : down;
}

}  // namespace

Value abs(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  Int storage = 0;
  if (const Int* number = whole_number(value, storage))
    return *number < 0 ? negate(value, interpreter.budget()) : Value::integer(*number);
  if (const double* number = value.as_real()) return Value(std::abs(*number));
  refuse_undefined(value);
  fail("bad operand type for abs(): '{}'", type_name(value));
}

Value to_int(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  refuse_undefined(value);
  Int storage = 0;
  if (const Int* number = whole_number(value, storage)) return Value::integer(*number);
  if (const double* number = value.as_real(); number && !std::isnan(*number)) return Value::integer(truncate(*number));
  const Value otherwise = bound[0] ? *bound[0] : Value::integer(0);
  if (const Text* text = value.as_text()) {
    const Int base = bound.number(1, 10);
    if (base == 0 || (base >= 2 && base <= 36))
      if (const auto number = parse_int(text->bytes, static_cast<int>(base))) return Value::integer(*number);
    const auto number = parse_float(text->bytes);
    if (number && std::isfinite(*number)) return Value::integer(truncate(*number));
  }
  return otherwise;
}

Value to_float(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  if (const auto number = float_of(value)) return Value(*number);
  return bound[0] ? *bound[0] : Value(0.0);
}

Value round(Interpreter&, const Value& value, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  refuse_undefined(value);
  const Int digits = bound.number(0, 0);
  const std::string method = bound[1] ? bound.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  Int storage = 0;
  const Int* whole = whole_number(value, storage);
  const double* real = value.as_real();
  if (!whole && !real) fail("type {} doesn't define __round__ method", type_name(value));
  if (method == "common")
    return whole ? Value::integer(round_whole(*whole, digits)) : Value(round_digits(*real, digits));
  if (digits < 0) fail("rounding up or down to tens is not supported");
  const double number = whole ? static_cast<double>(*whole) : *real;
  const double unit = static_cast<double>(power_of_ten(digits));
  const double scaled = number * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value sum(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Budget& budget = interpreter.budget();
  const AttributePath path(bound[0], budget);
  Value total = bound[1] ? *bound[1] : Value::integer(0);
  if (total.as_text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  const auto cursor = make_cursor(value, budget);
  for (Value item; cursor->next(item);) total = apply_operator("+", total, path.of(interpreter, item), budget);
  return total;
}

}  // namespace tpinfer::jinja::filters
