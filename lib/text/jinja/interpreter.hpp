#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/builtins.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/print.hpp"

namespace tpinfer::jinja {

/// strftime of the moment that `strftime_now` stands for.
using FormatNow = std::function<std::string(const std::string& format)>;

/// One rendering of a program.
class Interpreter {
 public:
  Interpreter(const Program& program, std::shared_ptr<const Dict> variables, const FormatNow& format_now,
              Budget& budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string render();

  // for builtins
  Budget& budget() noexcept { return budget_; }
  const FormatNow& format_now() const noexcept { return format_now_; }
  Value call(const Value& callee, const Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value make_namespace(Namespace content);

 private:
  enum class Flow { normal, leave, next_turn };
  class Nesting;  // counts nested evaluations
  class Capture;  // collects the output of a body
  class InScope;  // makes a scope the current one

  // expressions (evaluate.cpp)
  Value evaluate(const Expr& expr);
  Value evaluate_here(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_item(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller = nullptr);
  Value evaluate_filter(const Expr& expr, const Value* input);
  bool evaluate_test(const Expr& expr);
  Value evaluate_logic(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  bool evaluate_comparison(const Expr& expr);
  Value evaluate_condition(const Expr& expr);
  Arguments evaluate_arguments(const Expr& expr);
  Value loop_attribute(const Value& object, std::string_view name);
  Value call_macro(const MacroObject& object, const Arguments& arguments);
  Value run_macro(const Macro& macro);

  // statements (execute.cpp)
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_branches(const Stmt& stmt);
  Flow execute_loop(const Stmt& stmt);
  Flow execute_turn(const Stmt& stmt, const Value& loop, const Value& item);
  Flow execute_set_block(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);
  void execute_generation(const Stmt& stmt);
  void assign(const Target& target, Value value);
  void check_namespaces(const Target& target);

  // scopes
  std::shared_ptr<Scope> inner_scope() const;
  void enter(Scope& scope, const Loads& loads);
  void bind(Scope& scope, const Target& target, const Value& value);
  std::vector<Value> unpack(const Value& value, std::size_t count);
  std::optional<Value> look_up(NameId name) const;
  std::optional<Value> from_context(NameId name) const;

  void locate(Fault& fault, const Expr& expr) const;

  const Program& program_;
  std::shared_ptr<const Dict> variables_;
  const FormatNow& format_now_;
  Budget& budget_;
  Output* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;  // emptied at the end: they may hold each other
  int nesting_ = 0;
};

/// Python's binary operators on values.
Value apply_operator(std::string_view op, const Value& left, const Value& right, Budget& budget);
Value negate(const Value& value, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
/// object[start:stop:step], the bounds null where absent.
Value slice(const Value& object, const Value* start, const Value* stop, const Value* step, Budget& budget);
/// Python's `format % values`, for %s, %d, %r and %%.
std::string format_percent(std::string_view format, const Value& values, Budget& budget);

}  // namespace tpinfer::jinja
