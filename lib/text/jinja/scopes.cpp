#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "text/jinja/builtins.hpp"
#include "text/jinja/parser.hpp"

namespace tpinfer::jinja {
namespace {

// The variables that one scope mentions. This follows the reference's idtracking.py step by step, because what a
// variable is before it is set depends on it.
class Symbols {
 public:
  explicit Symbols(const Symbols* outer) : outer_(outer) {}
  // A branch of the scope: holds what is new in it.
  static Symbols branch_of(const Symbols& base) {
    Symbols branch(base.outer_);
    branch.base_ = &base;
    return branch;
  }

  bool knows(NameId name) const { return mentions(name) || (outer_ && outer_->knows(name)); }

  void parameter(NameId name) {
    stored_.insert(name);
    loads_[name] = Source::parameter;
  }
  void store(NameId name) {
    stored_.insert(name);
    if (!mentions(name)) loads_[name] = outer_ && outer_->knows(name) ? Source::outer : Source::nothing;
  }
  void load(NameId name) {
    if (!knows(name)) loads_[name] = Source::context;
  }
  // Takes in what the branches of a condition mention: what only they set may have come from outside.
  void merge(std::initializer_list<const Symbols*> branches) {
    std::set<NameId> stored;
    for (const Symbols* branch : branches)
      for (const NameId name : branch->stored_)
        if (!stores(name)) stored.insert(name);
    for (const Symbols* branch : branches) {
      for (const auto& [name, source] : branch->loads_) loads_[name] = source;
      stored_.insert(branch->stored_.begin(), branch->stored_.end());
    }
    for (const NameId name : stored) loads_[name] = outer_ && outer_->knows(name) ? Source::outer : Source::context;
  }
  Loads loads() const {
    Loads loads;
    for (const auto& [name, source] : loads_) loads.push_back({name, source});
    return loads;
  }

 private:
  bool mentions(NameId name) const { return loads_.contains(name) || (base_ && base_->mentions(name)); }
  bool stores(NameId name) const { return stored_.contains(name) || (base_ && base_->stores(name)); }

  const Symbols* outer_;
  const Symbols* base_ = nullptr;
  std::map<NameId, Source> loads_;
  std::set<NameId> stored_;
};

void for_each_name(const Expr& expr, const std::function<void(NameId)>& visit) {
  if (expr.kind == ExprKind::name) visit(expr.name);
  for (const ExprPtr& part : expr.parts)
    if (part) for_each_name(*part, visit);
  for (const Keyword& keyword : expr.keywords) for_each_name(*keyword.value, visit);
}

// Every name that is read in a body, in the scopes inside too.
void for_each_name(const Body& body, const std::function<void(NameId)>& visit) {
  for (const Stmt& stmt : body) {
    if (stmt.expr) for_each_name(*stmt.expr, visit);
    if (stmt.test) for_each_name(*stmt.test, visit);
    for (const ExprPtr& value : stmt.values) for_each_name(*value, visit);
    for (const Branch& branch : stmt.branches) {
      if (branch.test) for_each_name(*branch.test, visit);
      for_each_name(branch.body, visit);
    }
    for_each_name(stmt.body, visit);
    for_each_name(stmt.other, visit);
    if (!stmt.macro) continue;
    for (const ExprPtr& value : stmt.macro->defaults) for_each_name(*value, visit);
    for_each_name(stmt.macro->body, visit);
  }
}

bool reads(const Body& body, NameId wanted) {
  bool found = false;
  for_each_name(body, [&found, wanted](NameId name) { found |= name == wanted; });
  return found;
}

class Analysis {
 public:
  explicit Analysis(Program& program) : program_(program) {}

  void run() {
    program_.special = {id("loop"), id("self"), id("caller"), id("varargs"), id("kwargs")};
    Symbols root(nullptr);
    if (reads(program_.body, program_.special.self)) root.parameter(program_.special.self);
    mention(program_.body, root);
    enter(program_.body, root, false);
    program_.loads = root.loads();
  }

 private:
  NameId id(std::string_view name) {
    const auto place = std::ranges::find(program_.names, name) - program_.names.begin();
    if (static_cast<std::size_t>(place) == program_.names.size()) program_.names.emplace_back(name);
    return static_cast<NameId>(place);
  }

  static void mention(const Expr* expr, Symbols& symbols) {
    if (expr) for_each_name(*expr, [&symbols](NameId name) { symbols.load(name); });
  }

  void mention(const Target& target, Symbols& symbols, int line) {
    for (const Target& part : target.parts) mention(part, symbols, line);
    if (target.kind == Target::Kind::attribute) symbols.load(target.name);
    if (target.kind != Target::Kind::name) return;
    if (loops_ > 0 && target.name == program_.special.loop)
      throw Fault(FaultKind::syntax, "Can't assign to special loop variable in for-loop target", line);
    symbols.store(target.name);
  }

  static void bind(const Target& target, Symbols& symbols) {
    for (const Target& part : target.parts) bind(part, symbols);
    if (target.kind == Target::Kind::name) symbols.parameter(target.name);
  }

  // What the statements of a body mention in their own scope; the scopes inside are left out.
  void mention(const Body& body, Symbols& symbols) {
    for (const Stmt& stmt : body) mention(stmt, symbols);
  }

  void mention(const Stmt& stmt, Symbols& symbols) {
    switch (stmt.kind) {
      case StmtKind::condition: return mention_branches(stmt.branches, symbols);
      case StmtKind::set: mention(stmt.expr.get(), symbols); return mention(stmt.targets[0], symbols, stmt.line);
      case StmtKind::set_block: return mention(stmt.targets[0], symbols, stmt.line);
      case StmtKind::macro: return symbols.store(stmt.targets[0].name);
      case StmtKind::with:
        for (const ExprPtr& value : stmt.values) mention(value.get(), symbols);
        return;
      default: return mention(stmt.expr.get(), symbols);
    }
  }

  // Of the three parts that the reference merges, the second holds all of elif, one inside the other.
  void mention_branches(const std::vector<Branch>& branches, Symbols& symbols) {
    mention(branches[0].test.get(), symbols);
    Symbols first = Symbols::branch_of(symbols), middle = first, last = first;
    mention(branches[0].body, first);
    for (std::size_t i = 1; i < branches.size(); ++i) {
      if (!branches[i].test) {
        mention(branches[i].body, last);
      } else {
        mention(branches[i].test.get(), middle);
        Symbols inside = Symbols::branch_of(middle);
        mention(branches[i].body, inside);
        middle.merge({&inside});
      }
    }
    symbols.merge({&first, &middle, &last});
  }

  // Goes into the scopes that a body holds, whose own scope is complete. `soft`: below a condition, where unknown
  // filters fail only when they are reached.
  void enter(Body& body, const Symbols& symbols, bool soft) {
    for (Stmt& stmt : body) enter(stmt, symbols, soft);
  }

  void enter(Stmt& stmt, const Symbols& symbols, bool soft) {
    switch (stmt.kind) {
      case StmtKind::condition:
        for (Branch& branch : stmt.branches) {
          check(branch.test.get(), true);
          enter(branch.body, symbols, true);
        }
        return;
      case StmtKind::loop: return enter_loop(stmt, symbols, soft);
      case StmtKind::macro: return enter_macro(*stmt.macro, symbols);
      case StmtKind::call_block: check(stmt.expr.get(), soft); return enter_macro(*stmt.macro, symbols);
      case StmtKind::with: return enter_with(stmt, symbols, soft);
      case StmtKind::set_block:
      case StmtKind::filter_block:
      case StmtKind::generation: return enter_block(stmt, symbols);
      default: return check(stmt.expr.get(), soft);
    }
  }

  void enter_loop(Stmt& stmt, const Symbols& symbols, bool soft) {
    check(stmt.expr.get(), soft);
    check(stmt.test.get(), false);
    ++loops_;
    Symbols inside(&symbols), test(&symbols), other(&symbols);
    inside.parameter(program_.special.loop);
    bind(stmt.targets[0], inside);
    if (binds_loop(stmt.targets[0]))
      throw Fault(FaultKind::syntax, "Can't assign to special loop variable in for-loop target", stmt.line);
    mention(stmt.body, inside);
    bind(stmt.targets[0], test);
    mention(stmt.test.get(), test);
    mention(stmt.other, other);
    enter(stmt.body, inside, false);
    enter(stmt.other, other, false);
    --loops_;
    stmt.loads = inside.loads();
    stmt.test_loads = test.loads();
    stmt.other_loads = other.loads();
  }

  bool binds_loop(const Target& target) const {
    if (target.kind == Target::Kind::name) return target.name == program_.special.loop;
    return std::ranges::any_of(target.parts, [this](const Target& part) { return binds_loop(part); });
  }

  void enter_macro(Macro& macro, const Symbols& symbols) {
    Symbols inside(&symbols);
    for (const NameId name : macro.parameters) inside.parameter(name);
    const SpecialNames& special = program_.special;
    for (const auto& [name, taken] : {std::pair{special.caller, &macro.takes_caller},
                                      {special.kwargs, &macro.takes_kwargs},
                                      {special.varargs, &macro.takes_varargs}}) {
      *taken = reads(macro.body, name);
      if (*taken) inside.parameter(name);
    }
    for (const ExprPtr& value : macro.defaults) {
      mention(value.get(), inside);
      check(value.get(), false);
    }
    mention(macro.body, inside);
    enter(macro.body, inside, false);
    macro.loads = inside.loads();
  }

  void enter_with(Stmt& stmt, const Symbols& symbols, bool soft) {
    Symbols inside(&symbols);
    for (const ExprPtr& value : stmt.values) check(value.get(), soft);
    for (const Target& target : stmt.targets) bind(target, inside);
    mention(stmt.body, inside);
    enter(stmt.body, inside, false);
    stmt.loads = inside.loads();
  }

  void enter_block(Stmt& stmt, const Symbols& symbols) {
    Symbols inside(&symbols);
    mention(stmt.body, inside);
    mention(stmt.expr.get(), inside);
    check(stmt.expr.get(), false);
    enter(stmt.body, inside, false);
    stmt.loads = inside.loads();
  }

  static void check(const Expr* expr, bool soft) {
    if (!expr) return;
    const bool unknown = (expr->kind == ExprKind::filter && !(expr->filter && expr->filter->apply)) ||
                         (expr->kind == ExprKind::test && !(expr->test && expr->test->apply));
    if (unknown && !soft) throw Fault(FaultKind::syntax, unknown_message(*expr), expr->line);
    soft = soft || expr->kind == ExprKind::condition;
    for (const ExprPtr& part : expr->parts) check(part.get(), soft);
    for (const Keyword& keyword : expr->keywords) check(keyword.value.get(), soft);
  }

  Program& program_;
  int loops_ = 0;
};

}  // namespace

std::string unknown_message(const Expr& expr) {
  const bool is_filter = expr.kind == ExprKind::filter;
  const bool refused = is_filter ? expr.filter != nullptr : expr.test != nullptr;
  const std::string_view what = is_filter ? "filter" : "test";
  return refused ? fmt::format("the {} '{}' is not supported", what, expr.text)
                 : fmt::format("No {} named '{}'.", what, expr.text);
}

void analyse(Program& program) { Analysis(program).run(); }

}  // namespace tpinfer::jinja
