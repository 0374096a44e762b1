#include "text/jinja/builtins.hpp"
#include "text/jinja/literal.hpp"
#include "text/jinja/parser.hpp"

namespace tpinfer::jinja {
ExprPtr Parser::parse_postfix(ExprPtr expr) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr expr) {
  for (;;) {
    if (skip_op("|")) {
      expr = parse_filter(std::move(expr));
    } else if (skip_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  ExprPtr expr = make(ExprKind::item, *object);
  expr->parts.push_back(std::move(object));
  if (skip_op(".")) {
    if (current().kind == TokenKind::integer) {
      expr->parts.push_back(parse_number());
    } else if (current().kind == TokenKind::name) {
      expr->kind = ExprKind::attribute;
      expr->text = take().text;
    } else {
      refuse("expected name or number");
    }
    return finish(std::move(expr));
  }
  expect_op("[");
  if (is_op("]")) refuse("Expected an expression, got ']'");
  if (!is_op(":")) expr->parts.push_back(parse_expression());
  if (is_op(",")) refuse("an index of several parts is not supported");
  if (is_op(":")) {
    expr->kind = ExprKind::slice;
    if (expr->parts.size() == 1) expr->parts.push_back(nullptr);
    for (int bound = 0; bound < 2; ++bound) {
      const bool given = skip_op(":") && !is_op(":") && !is_op("]") && !is_op(",");
      expr->parts.push_back(given ? parse_expression() : nullptr);
    }
  }
  expect_op("]");
  return finish(std::move(expr));
}

void Parser::parse_arguments(Expr& call) {
  expect_op("(");
  while (!is_op(")")) {
    if (call.parts.size() > 1 || !call.keywords.empty()) {
      expect_op(",");
      if (is_op(")")) break;
    }
    if (is_op("*") || is_op("**")) refuse("arguments with * or ** are not supported");
    if (current().kind == TokenKind::name && look().kind == TokenKind::op && look().text == "=") {
      Keyword keyword{take().text, nullptr};
      for (const Keyword& other : call.keywords)
        if (other.name == keyword.name) refuse(fmt::format("keyword argument repeated: {}", keyword.name));
      ++at_;
      keyword.value = parse_expression();
      call.keywords.push_back(std::move(keyword));
    } else {
      if (!call.keywords.empty()) refuse("invalid syntax for function call expression");
      call.parts.push_back(parse_expression());
    }
  }
  expect_op(")");
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  ExprPtr expr = make(ExprKind::call, *callee);
  expr->parts.push_back(std::move(callee));
  parse_arguments(*expr);
  return finish(std::move(expr));
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_identifier();
  while (skip_op(".")) name += "." + expect_identifier();
  return name;
}

// Behind the bar; without an input in a block.
ExprPtr Parser::parse_filter(ExprPtr input) {
  ExprPtr expr = input ? make(ExprKind::filter, *input) : make(ExprKind::filter, at_);
  expr->parts.push_back(std::move(input));
  expr->text = parse_dotted_name();
  expr->filter = find_filter(expr->text);
  if (is_op("(")) parse_arguments(*expr);
  return finish(std::move(expr));
}

// Behind `is`.
ExprPtr Parser::parse_test(ExprPtr subject) {
  const bool negated = skip_name("not");
  ExprPtr expr = make(ExprKind::test, *subject);
  expr->parts.push_back(std::move(subject));
  expr->text = parse_dotted_name();
  expr->test = find_test(expr->text);
  const TokenKind next = current().kind;
  const bool value_follows = next == TokenKind::name || next == TokenKind::text || next == TokenKind::integer ||
                             next == TokenKind::real || is_op("[") || is_op("{");
  if (is_op("(")) {
    parse_arguments(*expr);
  } else if (value_follows && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) refuse("You cannot chain multiple tests with is");
    expr->parts.push_back(parse_postfix(parse_primary()));
  }
  expr = finish(std::move(expr));
  if (!negated) return expr;
  ExprPtr inverse = make(ExprKind::logical_not, *expr);
  inverse->parts.push_back(std::move(expr));
  return finish(std::move(inverse));
}

}  // namespace tpinfer::jinja
