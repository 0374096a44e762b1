#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.hpp"
#include "text/jinja/literal.hpp"
#include "text/jinja/parser.hpp"

namespace tpinfer::jinja {
namespace {

// Trees are walked by recursion; the reference fails a little above this.
constexpr int kMostDepth = 200;
constexpr int kMostLevels = 300;

}  // namespace

class Parser::Level {
 public:
  explicit Level(Parser& parser) : parser_(parser) {
    if (++parser_.level_ > kMostLevels) parser_.refuse("expressions are nested too deeply");
  }
  ~Level() { --parser_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Parser& parser_;
};

ExprPtr Parser::make(ExprKind kind, std::size_t begin) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = tokens_[begin].line;
  expr->begin = tokens_[begin].begin;
  return expr;
}

ExprPtr Parser::make(ExprKind kind, const Expr& first) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = first.line;
  expr->begin = first.begin;
  return expr;
}

ExprPtr Parser::finish(ExprPtr expr) const {
  expr->end = tokens_[at_ - 1].end;
  int depth = 0;
  for (const ExprPtr& part : expr->parts) depth = std::max(depth, part ? part->depth : 0);
  for (const Keyword& keyword : expr->keywords) depth = std::max(depth, keyword.value->depth);
  expr->depth = depth + 1;
  if (expr->depth > kMostDepth) refuse("an expression is too long or nested too deeply");
  return expr;
}

ExprPtr Parser::constant(Value value, std::size_t begin) {
  ExprPtr expr = make(ExprKind::constant, begin);
  expr->value = std::move(value);
  return finish(std::move(expr));
}

ExprPtr Parser::binary(ExprKind kind, std::string_view op, ExprPtr left, ExprPtr right, std::size_t begin) {
  ExprPtr expr = make(kind, begin);
  expr->text = op;
  expr->parts.push_back(std::move(left));
  expr->parts.push_back(std::move(right));
  return finish(std::move(expr));
}

ExprPtr Parser::parse_tuple(bool with_condition, Tuples kind) {
  const std::size_t begin = at_;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  for (;;) {
    if (!items.empty()) expect_op(",");
    const TokenKind next = current().kind;
    if (next == TokenKind::variable_end || next == TokenKind::block_end || is_op(")")) break;
    items.push_back(parse_expression(with_condition));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && kind == Tuples::plain) refuse(fmt::format("Expected an expression, got '{}'", describe(current())));
  ExprPtr expr = make(ExprKind::tuple, begin);
  expr->parts = std::move(items);
  return finish(std::move(expr));
}

ExprPtr Parser::parse_expression(bool with_condition) {
  const Level level(*this);
  return with_condition ? parse_condition() : parse_or();
}

ExprPtr Parser::parse_condition() {
  const std::size_t begin = at_;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr expr = make(ExprKind::condition, begin);
    expr->parts.push_back(parse_or());
    expr->parts.push_back(std::move(value));
    expr->parts.push_back(skip_name("else") ? parse_expression() : nullptr);
    value = finish(std::move(expr));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  const std::size_t begin = at_;
  ExprPtr left = parse_and();
  while (skip_name("or")) left = binary(ExprKind::logical_or, "or", std::move(left), parse_and(), begin);
  return left;
}

ExprPtr Parser::parse_and() {
  const std::size_t begin = at_;
  ExprPtr left = parse_not();
  while (skip_name("and")) left = binary(ExprKind::logical_and, "and", std::move(left), parse_not(), begin);
  return left;
}

ExprPtr Parser::parse_not() {
  const Level level(*this);
  const std::size_t begin = at_;
  if (!skip_name("not")) return parse_comparison();
  ExprPtr expr = make(ExprKind::logical_not, begin);
  expr->parts.push_back(parse_not());
  return finish(std::move(expr));
}

bool Parser::parse_comparison_operator(std::string& op) {
  static constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  if (current().kind == TokenKind::op && std::ranges::find(kSigns, current().text) != std::end(kSigns)) {
    op = take().text;
    return true;
  }
  if (skip_name("in")) {
    op = "in";
    return true;
  }
  if (!is_name("not") || look().kind != TokenKind::name || look().text != "in") return false;
  at_ += 2;
  op = "not in";
  return true;
}

ExprPtr Parser::parse_comparison() {
  const std::size_t begin = at_;
  ExprPtr first = parse_sum();
  std::string op;
  if (!parse_comparison_operator(op)) return first;
  ExprPtr expr = make(ExprKind::comparison, begin);
  expr->parts.push_back(std::move(first));
  do {
    expr->operators.push_back(op);
    expr->parts.push_back(parse_sum());
  } while (parse_comparison_operator(op));
  return finish(std::move(expr));
}

ExprPtr Parser::parse_sum() {
  const std::size_t begin = at_;
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const std::string op = take().text;
    left = binary(ExprKind::binary, op, std::move(left), parse_concat(), begin);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const std::size_t begin = at_;
  ExprPtr first = parse_product();
  if (!is_op("~")) return first;
  ExprPtr expr = make(ExprKind::concat, begin);
  expr->parts.push_back(std::move(first));
  while (skip_op("~")) expr->parts.push_back(parse_product());
  return finish(std::move(expr));
}

ExprPtr Parser::parse_product() {
  const std::size_t begin = at_;
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string op = take().text;
    left = binary(ExprKind::binary, op, std::move(left), parse_power(), begin);
  }
  return left;
}

ExprPtr Parser::parse_power() {
  const std::size_t begin = at_;
  ExprPtr left = parse_unary();
  while (skip_op("**")) left = binary(ExprKind::binary, "**", std::move(left), parse_unary(), begin);
  return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const Level level(*this);
  const std::size_t begin = at_;
  ExprPtr expr;
  if (is_op("-") || is_op("+")) {
    expr = make(is_op("-") ? ExprKind::negate : ExprKind::plus, begin);
    ++at_;
    expr->parts.push_back(parse_unary(false));
    expr = finish(std::move(expr));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filters ? parse_filters_and_tests(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::parse_primary() {
  switch (current().kind) {
    case TokenKind::name: return parse_name();
    case TokenKind::text: return parse_string();
    case TokenKind::integer:
    case TokenKind::real: return parse_number();
    default: break;
  }
  if (is_op("(")) {
    const std::size_t begin = take().begin;
    ExprPtr inside = parse_tuple(true, Tuples::parenthesised);
    inside->begin = begin;
    inside->end = current().end;
    expect_op(")");
    return inside;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  refuse(fmt::format("unexpected '{}'", describe(current())));
}

ExprPtr Parser::parse_name() {
  const std::size_t begin = at_;
  const std::string name = take().text;
  if (name == "true" || name == "True") return constant(Value(true), begin);
  if (name == "false" || name == "False") return constant(Value(false), begin);
  if (name == "none" || name == "None") return constant(Value(), begin);
  ExprPtr expr = make(ExprKind::name, begin);
  expr->name = name_id(name);
  expr->text = name;
  return finish(std::move(expr));
}

ExprPtr Parser::parse_number() {
  const std::size_t begin = at_;
  const Token token = take();
  try {
    if (token.kind == TokenKind::real) return constant(Value(*parse_float(token.text)), begin);
    return constant(Value::integer(*parse_int(token.text, 0)), begin);
  } catch (const Fault& fault) {
    refuse(fault.what());
  }
}

ExprPtr Parser::parse_string() {
  const std::size_t begin = at_;
  std::string text;
  while (current().kind == TokenKind::text) text += take().text;
  return constant(Value(std::move(text)), begin);
}

ExprPtr Parser::parse_list() {
  ExprPtr expr = make(ExprKind::list, at_);
  expect_op("[");
  while (!is_op("]")) {
    if (!expr->parts.empty()) expect_op(",");
    if (is_op("]")) break;
    expr->parts.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(expr));
}

ExprPtr Parser::parse_dict() {
  ExprPtr expr = make(ExprKind::dict, at_);
  expect_op("{");
  while (!is_op("}")) {
    if (!expr->parts.empty()) expect_op(",");
    if (is_op("}")) break;
    expr->parts.push_back(parse_expression());
    expect_op(":");
    expr->parts.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(expr));
}

}  // namespace tpinfer::jinja
