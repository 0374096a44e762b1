#include "text/jinja/nesting.hpp"

namespace tpinfer::jinja {
namespace {

// What a loop goes through when it has an `if`: the items for which the test holds.
class TestedCursor final : public Cursor {
 public:
  using Accept = std::function<bool(Value& item)>;
  TestedCursor(std::shared_ptr<Cursor> source, Accept accept)
      : Cursor(source->depth() + 1), source_(std::move(source)), accept_(std::move(accept)) {}

  bool next(Value& item) override {
    while (source_->next(item))
      if (accept_(item)) return true;
    return false;
  }

 private:
  std::shared_ptr<Cursor> source_;
  Accept accept_;
};

Value or_undefined(const std::optional<Value>& value, std::string_view message) {
  return value ? *value : Value::undefined(std::string(message));
}

Value cycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("no items for cycling given");
  const auto index = static_cast<std::size_t>(self.get<LoopState>()->index0);
  return arguments.positional[index % arguments.positional.size()];
}

Value changed(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  auto* loop = self.get<LoopState>();
  if (loop->finished) fail("changed() of a loop that has ended is not supported");
  Value now = make_tuple(arguments.positional, interpreter.budget());
  if (loop->changed && equals(*loop->changed, now, interpreter.budget())) return Value(false);
  loop->changed = std::move(now);
  return Value(true);
}

// What changed() was called with may hold the loop itself.
class FinishAtEnd {
 public:
  explicit FinishAtEnd(LoopState& loop) : loop_(loop) {}
  ~FinishAtEnd() {
    loop_.finished = true;
    loop_.changed.reset();
  }
  FinishAtEnd(const FinishAtEnd&) = delete;
  FinishAtEnd& operator=(const FinishAtEnd&) = delete;

 private:
  LoopState& loop_;
};

}  // namespace

bool LoopState::advance() {
  Value item;
  if (after) {
    item = std::move(*after);
    after.reset();
  } else if (!cursor->next(item)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

const std::optional<Value>& LoopState::peek() {
  if (Value item; !after && cursor->next(item)) after = std::move(item);
  return after;
}

Int LoopState::total(Budget& budget) {
  if (!length) {
    std::vector<Value> rest = collect(Value(cursor), budget);
    length = static_cast<Int>(rest.size()) + index0 + 1 + (after ? 1 : 0);
    cursor = make_cursor(make_list(std::move(rest), budget), budget);
  }
  return *length;
}

Value Interpreter::loop_attribute(const Value& object, std::string_view name) {
  LoopState& loop = *object.get<LoopState>();
  const Int index = loop.index0;
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(!loop.peek().has_value());
  if (name == "length") return Value::integer(loop.total(budget_));
  if (name == "revindex") return Value::integer(loop.total(budget_) - index);
  if (name == "revindex0") return Value::integer(loop.total(budget_) - index - 1);
  if (name == "previtem")
    return index == 0 ? Value::undefined("there is no previous item") : or_undefined(loop.before, "");
  if (name == "nextitem") return or_undefined(loop.peek(), "there is no next item");
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "cycle") return Value(std::make_shared<const Callable>(Callable{"cycle", cycle, object}));
  if (name == "changed") return Value(std::make_shared<const Callable>(Callable{"changed", changed, object}));
  if (name.starts_with('_')) fail("access to attribute '{}' of 'LoopContext' object is unsafe.", name);
  return Value::undefined(fmt::format("'jinja2.runtime.LoopContext object' has no attribute '{}'", name));
}

Interpreter::Flow Interpreter::execute_loop(const Stmt& stmt) {
  const Value iterable = evaluate(*stmt.expr);
  auto loop = std::make_shared<LoopState>();
  loop->cursor = make_cursor(iterable, budget_);
  if (!stmt.test) {
    loop->length = length_of(iterable, budget_);
  } else {
    loop->cursor = std::make_shared<TestedCursor>(loop->cursor, [this, &stmt, outer = scope_](Value& item) {
      const auto scope = std::make_shared<Scope>();
      scope->outer = outer;
      bind(*scope, stmt.targets[0], item);
      enter(*scope, stmt.test_loads);
      const InScope inside(*this, scope);
      if (stmt.targets[0].kind == Target::Kind::tuple)  // the reference packs the parts again
        item = make_tuple(unpack(item, stmt.targets[0].parts.size()), budget_);
      return truth(evaluate(*stmt.test));
    });
  }
  const Value loop_value(loop);
  const FinishAtEnd finish(*loop);
  bool turned = false;  // one turn came to its end: otherwise the else part runs
  Flow flow = Flow::normal;
  while (flow != Flow::leave && loop->advance()) {
    flow = execute_turn(stmt, loop_value, *loop->current);
    turned |= flow == Flow::normal;
  }
  if (stmt.test) loop->cursor = make_cursor(make_list({}, budget_), budget_);  // its test needs this very call
  if (turned || stmt.other.empty()) return Flow::normal;
  const auto scope = inner_scope();
  enter(*scope, stmt.other_loads);
  const InScope inside(*this, scope);
  return execute(stmt.other);
}

Interpreter::Flow Interpreter::execute_turn(const Stmt& stmt, const Value& loop, const Value& item) {
  const auto scope = inner_scope();
  scope->slots.emplace_back(program_.special.loop, loop);
  bind(*scope, stmt.targets[0], item);
  enter(*scope, stmt.loads);
  const InScope inside(*this, scope);
  return execute(stmt.body);
}

}  // namespace tpinfer::jinja
