#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/lexer.hpp"

namespace tpinfer::jinja {

/// The tree of a template. Names are numbered, scopes not yet analysed. Fails with a syntax Fault that has a line.
class Parser {
 public:
  /// `source` has normalized line ends and lives as long as the parser.
  explicit Parser(std::string source);
  Program parse();

 private:
  // statements (parse_statement.cpp)
  Body parse_body(std::initializer_list<std::string_view> ends);
  void parse_statement(Body& out);
  bool at_end_word(std::initializer_list<std::string_view> ends) const;
  Body parse_block(std::initializer_list<std::string_view> ends, std::string_view& end);
  Body parse_block(std::string_view end);
  Body parse_function_block(std::string_view end);
  Stmt parse_if();
  Stmt parse_for();
  Stmt parse_set();
  Stmt parse_with();
  Stmt parse_macro();
  Stmt parse_call();
  Stmt parse_filter_block();
  Stmt parse_generation();
  Stmt parse_loop_control();
  void parse_signature(Macro& macro);
  Target parse_target(bool with_attributes);
  Target parse_target_item(bool with_attributes);
  Target target_of(const Expr& expr) const;

  // expressions (parse_expression.cpp)
  enum class Tuples { plain, parenthesised };
  ExprPtr parse_tuple(bool with_condition, Tuples kind = Tuples::plain);
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters = true);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_number();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_filter(ExprPtr input);
  ExprPtr parse_test(ExprPtr subject);
  void parse_arguments(Expr& call);
  std::string parse_dotted_name();
  bool parse_comparison_operator(std::string& op);

  // nodes; `begin` is the number of the token that the expression starts with
  static ExprPtr make(ExprKind kind, const Expr& first);
  ExprPtr make(ExprKind kind, std::size_t begin) const;
  ExprPtr constant(Value value, std::size_t begin);
  ExprPtr finish(ExprPtr expr) const;
  ExprPtr binary(ExprKind kind, std::string_view op, ExprPtr left, ExprPtr right, std::size_t begin);

  // tokens
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool is_op(std::string_view op) const { return current().kind == TokenKind::op && current().text == op; }
  bool is_name(std::string_view name) const { return current().kind == TokenKind::name && current().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenKind kind);
  std::string expect_identifier();
  [[noreturn]] void refuse(const std::string& message) const;
  NameId name_id(const std::string& name);

  class Level;  // counts nested calls

  Program program_;
  std::unordered_map<std::string, NameId> ids_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int level_ = 0;
  int loops_ = 0;  // loops that `break` may leave
};

/// Decides for every scope where its variables come from, and refuses unknown filters and tests where the reference
/// does so when it compiles.
void analyse(Program& program);

}  // namespace tpinfer::jinja
