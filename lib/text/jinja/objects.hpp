#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/cursor.hpp"
#include "text/jinja/value.hpp"

namespace tpinfer::jinja {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// A function, or a method of `self`.
struct Callable {
  using Function = Value (*)(Interpreter&, const Value& self, const Arguments&);
  std::string name;
  Function function;
  Value self;
};

/// The variables of one run through a body. An empty slot is a variable that has no value yet.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<NameId, std::optional<Value>>> slots;

  std::optional<Value>* find(NameId name) {
    for (auto& [id, value] : slots)
      if (id == name) return &value;
    return nullptr;
  }
};

/// A macro and the scope that it was written in. The scope does not live on for the macro's sake: it would hold the
/// macro in turn. A macro carried out of its scope can not be called.
struct MacroObject {
  const Macro* macro;
  std::weak_ptr<Scope> scope;
};

/// What `loop` is.
struct LoopState {
  std::shared_ptr<Cursor> cursor;
  std::optional<Int> length;
  Int index0 = -1;
  std::optional<Value> before, current, after;
  std::optional<Value> changed;  // what loop.changed() was last called with
  bool finished = false;

  int depth() const { return cursor->depth() + 1; }
  bool advance();
  const std::optional<Value>& peek();
  Int total(Budget& budget);
};

}  // namespace tpinfer::jinja
