#include <algorithm>

#include "text/jinja/nesting.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr std::size_t kMostShown = 80;

// The expression as it stands in the template, on one line and not too long.
std::string shown(std::string_view source) {
  std::string text;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t size = code_point_at(source, at).size;
    const bool space = size == 1 && (source[at] == '\n' || source[at] == '\t' || source[at] == ' ');
    if (!space) {
      text += source.substr(at, size);
    } else if (!text.ends_with(' ')) {
      text += ' ';
    }
    at += size;
    if (text.size() > kMostShown) return text + "...";
  }
  return text;
}

}  // namespace

void Interpreter::locate(Fault& fault, const Expr& expr) const {
  if (fault.line() == 0)
    fault.place(expr.line, shown(std::string_view(program_.source).substr(expr.begin, expr.end - expr.begin)));
}

Value Interpreter::evaluate(const Expr& expr) {
  try {
    const Nesting nesting(*this);
    return evaluate_here(expr);
  } catch (Fault& fault) {
    locate(fault, expr);
    throw;
  }
}

Value Interpreter::evaluate_here(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::constant: return expr.value;
    case ExprKind::name: return evaluate_name(expr);
    case ExprKind::list: return make_list(evaluate_arguments(expr).positional, budget_);
    case ExprKind::tuple: return make_tuple(evaluate_arguments(expr).positional, budget_);
    case ExprKind::dict: return evaluate_dict(expr);
    case ExprKind::attribute: return attribute(evaluate(*expr.parts[0]), expr.text);
    case ExprKind::item: return evaluate_item(expr);
    case ExprKind::slice: return evaluate_slice(expr);
    case ExprKind::call: return evaluate_call(expr);
    case ExprKind::filter: return evaluate_filter(expr, nullptr);
    case ExprKind::test: return Value(evaluate_test(expr));
    case ExprKind::negate: return negate(evaluate(*expr.parts[0]), budget_);
    case ExprKind::plus: return negate(negate(evaluate(*expr.parts[0]), budget_), budget_);
    case ExprKind::logical_not: return Value(!truth(evaluate(*expr.parts[0])));
    case ExprKind::logical_and:
    case ExprKind::logical_or: return evaluate_logic(expr);
    case ExprKind::binary: {
      const Value left = evaluate(*expr.parts[0]);
      return apply_operator(expr.text, left, evaluate(*expr.parts[1]), budget_);
    }
    case ExprKind::concat: return evaluate_concat(expr);
    case ExprKind::comparison: return Value(evaluate_comparison(expr));
    case ExprKind::condition: return evaluate_condition(expr);
  }
  fail("an unknown kind of expression");
}

Value Interpreter::evaluate_name(const Expr& expr) {
  if (auto value = look_up(expr.name)) return *value;
  return Value::undefined(fmt::format("'{}' is undefined", expr.text));
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    Value key = evaluate(*expr.parts[i]);
    dict->set(std::move(key), evaluate(*expr.parts[i + 1]), budget_);
  }
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value Interpreter::evaluate_item(const Expr& expr) {
  const Value object = evaluate(*expr.parts[0]);
  return item(object, evaluate(*expr.parts[1]));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.parts[0]);
  Value bounds[3];
  const Value* given[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!expr.parts[i + 1]) continue;
    bounds[i] = evaluate(*expr.parts[i + 1]);
    given[i] = &bounds[i];
  }
  return slice(object, given[0], given[1], given[2], budget_);
}

// All parts as positional arguments.
Arguments Interpreter::evaluate_arguments(const Expr& expr) {
  const bool is_call = expr.kind == ExprKind::call || expr.kind == ExprKind::filter || expr.kind == ExprKind::test;
  Arguments arguments;
  for (std::size_t i = is_call ? 1 : 0; i < expr.parts.size(); ++i)
    arguments.positional.push_back(evaluate(*expr.parts[i]));
  for (const Keyword& keyword : expr.keywords) arguments.named.emplace_back(keyword.name, evaluate(*keyword.value));
  return arguments;
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.parts[0]);
  Arguments arguments = evaluate_arguments(expr);
  if (caller) arguments.named.emplace_back("caller", *caller);
  return call(callee, arguments);
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* input) {
  const Value value = expr.parts[0] ? (expr.parts[0]->kind == ExprKind::filter ? evaluate_filter(*expr.parts[0], input)
                                                                               : evaluate(*expr.parts[0]))
                                    : *input;
  if (!expr.filter || !expr.filter->apply) fail("{}", unknown_message(expr));
  return expr.filter->apply(*this, value, evaluate_arguments(expr));
}

bool Interpreter::evaluate_test(const Expr& expr) {
  const Value value = evaluate(*expr.parts[0]);
  if (!expr.test || !expr.test->apply) fail("{}", unknown_message(expr));
  return expr.test->apply(*this, value, evaluate_arguments(expr));
}

Value Interpreter::evaluate_logic(const Expr& expr) {
  Value left = evaluate(*expr.parts[0]);
  const bool stops = truth(left) == (expr.kind == ExprKind::logical_or);
  return stops ? left : evaluate(*expr.parts[1]);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  Output text(budget_);
  for (const ExprPtr& part : expr.parts) append_str(text, evaluate(*part));
  return Value(text.take());
}

bool Interpreter::evaluate_comparison(const Expr& expr) {
  Value left = evaluate(*expr.parts[0]);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.parts[i + 1]);
    const std::string& op = expr.operators[i];
    bool holds = false;
    if (op == "==") {
      holds = equals(left, right, budget_);
    } else if (op == "!=") {
      holds = !equals(left, right, budget_);
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left, budget_) == (op == "in");
    } else {
      const int order = compare(left, right, op, budget_);
      holds = op == "<" ? order < 0 : (op == "<=" ? order <= 0 : (op == ">" ? order > 0 : order >= 0));
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_condition(const Expr& expr) {
  if (truth(evaluate(*expr.parts[0]))) return evaluate(*expr.parts[1]);
  if (expr.parts[2]) return evaluate(*expr.parts[2]);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

}  // namespace tpinfer::jinja
