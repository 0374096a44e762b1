#include <algorithm>

#include "text/jinja/nesting.hpp"

namespace tpinfer::jinja {
namespace {

bool is_constant(const Expr* expr) {
  if (!expr) return true;
  return expr->kind == ExprKind::constant || (expr->kind == ExprKind::negate && is_constant(expr->parts[0].get()));
}

// `{{ none[1:] }}`: the reference folds constants, and folded this is undefined; elsewhere it fails.
bool is_folded_slice(const Expr& expr) {
  if (expr.kind != ExprKind::slice || expr.parts[0]->kind != ExprKind::constant) return false;
  if (expr.parts[0]->value.as_text()) return false;
  return std::ranges::all_of(expr.parts, [](const ExprPtr& part) { return is_constant(part.get()); });
}

}  // namespace

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Stmt& stmt : body) {
    try {
      const Nesting nesting(*this);
      if (const Flow flow = execute(stmt); flow != Flow::normal) return flow;
    } catch (Fault& fault) {
      if (fault.line() == 0) fault.place(stmt.line, "");
      throw;
    }
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::text: out_->append(stmt.text); break;
    case StmtKind::output:
      if (!is_folded_slice(*stmt.expr)) append_str(*out_, evaluate(*stmt.expr));
      break;
    case StmtKind::condition: return execute_branches(stmt);
    case StmtKind::loop: return execute_loop(stmt);
    case StmtKind::set:
      check_namespaces(stmt.targets[0]);
      assign(stmt.targets[0], evaluate(*stmt.expr));
      break;
    case StmtKind::set_block: return execute_set_block(stmt);
    case StmtKind::macro:
      assign(stmt.targets[0], Value(std::make_shared<const MacroObject>(MacroObject{stmt.macro.get(), scope_})));
      break;
    case StmtKind::call_block: execute_call_block(stmt); break;
    case StmtKind::filter_block: return execute_filter_block(stmt);
    case StmtKind::with: return execute_with(stmt);
    case StmtKind::generation: execute_generation(stmt); break;
    case StmtKind::leave: return Flow::leave;
    case StmtKind::next_turn: return Flow::next_turn;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_branches(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches)
    if (!branch.test || truth(evaluate(*branch.test))) return execute(branch.body);
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& stmt) {
  const auto scope = inner_scope();
  enter(*scope, stmt.loads);
  Value text;
  {
    const InScope inside(*this, scope);
    Capture capture(*this);
    if (const Flow flow = execute(stmt.body); flow != Flow::normal) return flow;
    text = Value(capture.take());
    if (stmt.expr) text = evaluate_filter(*stmt.expr, &text);
  }
  check_namespaces(stmt.targets[0]);
  assign(stmt.targets[0], std::move(text));
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_filter_block(const Stmt& stmt) {
  const auto scope = inner_scope();
  enter(*scope, stmt.loads);
  const InScope inside(*this, scope);
  Value text;
  {
    Capture capture(*this);
    if (const Flow flow = execute(stmt.body); flow != Flow::normal) return flow;
    text = Value(capture.take());
  }
  append_str(*out_, evaluate_filter(*stmt.expr, &text));
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
  const auto scope = inner_scope();
  enter(*scope, stmt.loads);
  for (std::size_t i = 0; i < stmt.targets.size(); ++i) bind(*scope, stmt.targets[i], evaluate(*stmt.values[i]));
  const InScope inside(*this, scope);
  return execute(stmt.body);
}

void Interpreter::execute_call_block(const Stmt& stmt) {
  const Value caller(std::make_shared<const MacroObject>(MacroObject{stmt.macro.get(), scope_}));
  append_str(*out_, evaluate_call(*stmt.expr, &caller));
}

void Interpreter::execute_generation(const Stmt& stmt) {
  const auto scope = inner_scope();
  enter(*scope, stmt.loads);
  const InScope inside(*this, scope);
  execute(stmt.body);
}

// Fails before the value is evaluated, as the reference does.
void Interpreter::check_namespaces(const Target& target) {
  for (const Target& part : target.parts) check_namespaces(part);
  if (target.kind != Target::Kind::attribute) return;
  const auto value = look_up(target.name);
  if (!value || !value->get<Namespace>()) fail("cannot assign attribute on non-namespace object");
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.kind == Target::Kind::tuple) {
    const std::vector<Value> parts = unpack(value, target.parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
  } else if (target.kind == Target::Kind::name) {
    bind(*scope_, target, value);
  } else {
    const auto object = look_up(target.name);
    Namespace* space = object ? object->get<Namespace>() : nullptr;
    if (!space) fail("cannot assign attribute on non-namespace object");
    if (target.attribute.starts_with('_'))
      fail("a namespace cannot store the underscore-prefixed attribute '{}'", target.attribute);
    budget_.make(sizeof(Value));
    space->set(target.attribute, std::move(value));
  }
}

std::shared_ptr<Scope> Interpreter::inner_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->outer = scope_;
  return scope;
}

void Interpreter::enter(Scope& scope, const Loads& loads) {
  for (const auto& [name, source] : loads) {
    if (source == Source::parameter) continue;
    budget_.work();
    std::optional<Value> value;
    if (source == Source::context) value = from_context(name);
    if (source == Source::outer)
      for (Scope* outer = scope.outer.get(); outer; outer = outer->outer.get())
        if (const auto* slot = outer->find(name)) {
          value = *slot;
          break;
        }
    scope.slots.emplace_back(name, std::move(value));
  }
}

void Interpreter::bind(Scope& scope, const Target& target, const Value& value) {
  if (target.kind == Target::Kind::tuple) {
    const std::vector<Value> parts = unpack(value, target.parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) bind(scope, target.parts[i], parts[i]);
  } else if (auto* slot = scope.find(target.name)) {
    *slot = value;
  } else {
    scope.slots.emplace_back(target.name, value);
  }
}

std::vector<Value> Interpreter::unpack(const Value& value, std::size_t count) {
  if (!is_iterable(value)) fail("cannot unpack non-iterable {} object", type_name(value));
  const auto cursor = make_cursor(value, budget_);
  std::vector<Value> parts;
  for (Value item; cursor->next(item);) {
    if (parts.size() == count) fail("too many values to unpack (expected {})", count);
    parts.push_back(item);
  }
  if (parts.size() < count) fail("not enough values to unpack (expected {}, got {})", count, parts.size());
  return parts;
}

std::optional<Value> Interpreter::look_up(NameId name) const {
  for (Scope* scope = scope_.get(); scope; scope = scope->outer.get())
    if (const auto* slot = scope->find(name)) return *slot;
  return std::nullopt;
}

std::optional<Value> Interpreter::from_context(NameId name) const {
  const std::string& text = program_.names[name];
  if (const Value* value = variables_->find(text)) return *value;
  if (const Value* value = find_global(text)) return *value;
  return std::nullopt;
}

}  // namespace tpinfer::jinja
