#include <cmath>

#include "text/jinja/cursor.hpp"
#include "text/jinja/interpreter.hpp"

namespace tpinfer::jinja {
namespace {

constexpr Int kExactDouble = Int{1} << 53;

[[noreturn]] void too_large() { fail("whole numbers beyond 127 bits are not supported"); }

[[noreturn]] void unsupported(std::string_view op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right})
    if (const auto* info = value->get<const UndefinedInfo>()) fail("{}", info->message);
  if (op == "+" && left.as_text()) fail("can only concatenate str (not \"{}\") to str", type_name(right));
  fail("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(left), type_name(right));
}

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int power(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) too_large();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return result;
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double float_floor_divide(double a, double b) {
  const double quotient = (a - floor_modulo(a, b)) / b;
  const double down = std::floor(quotient);
  if (quotient == 0) return std::copysign(0.0, a / b);
  return quotient - down > 0.5 ? down + 1 : down;
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  if (base < 0 && exponent != std::floor(exponent)) fail("complex numbers are not supported");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && !std::isinf(base) && !std::isinf(exponent)) fail("Numerical result out of range");
  return Value(result);
}

Value integer_operator(std::string_view op, Int a, Int b) {
  Int result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) too_large();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) too_large();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) too_large();
  } else if (op == "**") {
    if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
    result = power(a, b);
  } else {
    if (b == 0) fail("division by zero");
    if (op == "/") {
      if (a > kExactDouble || a < -kExactDouble || b > kExactDouble || b < -kExactDouble)
        fail("dividing whole numbers beyond 53 bits is not supported");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    }
    result = op == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
  }
  return Value::integer(result);
}

Value float_operator(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return float_power(a, b);
  if (b == 0) fail("float division by zero");
  if (op == "/") return Value(a / b);
  if (std::isinf(a) || std::isinf(b) || std::isnan(a) || std::isnan(b)) fail("inf and nan are not supported here");
  return Value(op == "//" ? float_floor_divide(a, b) : floor_modulo(a, b));
}

// text, list or tuple * number
std::optional<Value> repeat(const Value& value, Int count, Budget& budget) {
  if (count < 0) count = 0;
  constexpr Int kMost = Int{1} << 40;
  if (const Text* text = value.as_text()) {
    Output out(budget);
    out.append(static_cast<std::size_t>(std::min(count, kMost)), text->bytes);
    return Value(std::make_shared<const Text>(Text{out.take(), text->safe}));
  }
  const auto* items = value.items();
  if (!items) return std::nullopt;
  if (!items->empty() && count > kMost / static_cast<Int>(items->size())) fail("the template makes too much text");
  const std::size_t total = items->size() * static_cast<std::size_t>(items->empty() ? 0 : count);
  budget.make(total * sizeof(Value));
  std::vector<Value> repeated;
  repeated.reserve(total);
  for (std::size_t i = 0; i < total; ++i) repeated.push_back((*items)[i % items->size()]);
  return value.as_list() ? make_list(std::move(repeated), budget) : make_tuple(std::move(repeated), budget);
}

std::optional<Value> join(const Value& left, const Value& right, Budget& budget) {
  if (left.as_text() && right.as_text()) {
    Output out(budget);
    const bool safe = left.as_text()->safe || right.as_text()->safe;
    for (const Value* side : {&left, &right}) {
      if (safe) {
        append_escaped(out, *side->as_text());
      } else {
        out.append(side->as_text()->bytes);
      }
    }
    return Value(std::make_shared<const Text>(Text{out.take(), safe}));
  }
  if (!(left.as_list() && right.as_list()) && !(left.as_tuple() && right.as_tuple())) return std::nullopt;
  budget.make((left.items()->size() + right.items()->size()) * sizeof(Value));
  std::vector<Value> items = *left.items();
  items.insert(items.end(), right.items()->begin(), right.items()->end());
  return left.as_list() ? make_list(std::move(items), budget) : make_tuple(std::move(items), budget);
}

}  // namespace

Value apply_operator(std::string_view op, const Value& left, const Value& right, Budget& budget) {
  Int left_store = 0, right_store = 0;
  const Int* a = whole_number(left, left_store);
  const Int* b = whole_number(right, right_store);
  if (a && b) return integer_operator(op, *a, *b);
  if ((a || left.as_real()) && (b || right.as_real()))
    return float_operator(op, a ? static_cast<double>(*a) : *left.as_real(),
                          b ? static_cast<double>(*b) : *right.as_real());
  if (left.is_undefined() || right.is_undefined()) {
    if (!(op == "%" && left.as_text())) unsupported(op, left, right);
  }
  std::optional<Value> result;
  if (op == "+") result = join(left, right, budget);
  if (op == "*" && b) result = repeat(left, *b, budget);
  if (op == "*" && a) result = repeat(right, *a, budget);
  if (op == "%" && left.as_text()) return Value(format_percent(plain_text(left), right, budget));
  if (!result) unsupported(op, left, right);
  return *result;
}

Value negate(const Value& value, Budget&) {
  Int storage = 0;
  if (const Int* number = whole_number(value, storage)) {
    Int result = 0;
    if (__builtin_sub_overflow(Int{0}, *number, &result)) too_large();
    return Value::integer(result);
  }
  if (const double* number = value.as_real()) return Value(-*number);
  if (const auto* info = value.get<const UndefinedInfo>()) fail("{}", info->message);
  fail("bad operand type for unary operator: '{}'", type_name(value));
}

std::string format_percent(std::string_view format, const Value& values, Budget& budget) {
  const Tuple* tuple = values.as_tuple();
  if (values.as_dict()) fail("% with a dict is not supported");
  const std::size_t count = tuple ? tuple->items.size() : 1;
  std::size_t used = 0;
  Output out(budget);
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t mark = format.find('%', at);
    out.append(format.substr(at, mark - at));
    if (mark == std::string_view::npos) break;
    const char kind = mark + 1 < format.size() ? format[mark + 1] : '\0';
    at = mark + 2;
    if (kind == '%') {
      out.append("%");
      continue;
    }
    if (kind != 's' && kind != 'd' && kind != 'r') fail("of the % formats only %s, %d and %r are supported");
    if (used == count) fail("not enough arguments for format string");
    const Value& value = tuple ? tuple->items[used] : values;
    ++used;
    Int storage = 0;
    const Int* number = whole_number(value, storage);
    if (kind == 'd' && !number) fail("%d format: a whole number is required, not {}", type_name(value));
    if (kind == 'd') {
      out.append(repr(*number));
    } else if (kind == 's') {
      append_str(out, value);
    } else {
      append_repr(out, value);
    }
  }
  if (used != count && (tuple || !values.items())) fail("not all arguments converted during string formatting");
  return out.take();
}

}  // namespace tpinfer::jinja
