#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.hpp"

namespace tpinfer::jinja {

/// A name's number in Program::names.
using NameId = std::uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Filter;
struct Test;

enum class ExprKind {
  constant,   // value
  name,       // name
  list,       // parts
  tuple,      // parts
  dict,       // parts: key, value, key, value ...
  attribute,  // parts[0].text
  item,       // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]]; absent ones are null
  call,       // parts[0](parts[1] ..., keywords)
  filter,     // parts[0] | text(parts[1] ..., keywords); parts[0] is null in a filter block
  test,       // parts[0] is text(parts[1] ..., keywords)
  negate,
  plus,
  logical_not,
  logical_and,
  logical_or,
  binary,      // parts[0] text parts[1], text being + - * / // % **
  concat,      // parts joined as texts
  comparison,  // parts[0] operators[0] parts[1] operators[1] parts[2] ...
  condition,   // parts[1] if parts[0] else parts[2]; parts[2] may be null
};

struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  int line = 0;
  std::size_t begin = 0, end = 0;  // its place in the source, for messages
  int depth = 1;                   // of the tree below
  std::vector<ExprPtr> parts;
  Value value;
  NameId name = 0;
  std::string text;
  std::vector<std::string> operators;
  std::vector<Keyword> keywords;
  const Filter* filter = nullptr;  // null: unknown, which fails when it is reached
  const Test* test = nullptr;
};

/// What is assigned to: a name, an attribute of a namespace, or several of these.
struct Target {
  enum class Kind { name, attribute, tuple } kind;
  NameId name = 0;
  std::string attribute;
  std::vector<Target> parts;
};

/// How a scope gets the variables that it mentions, at the moment it is entered. The reference decides this when it
/// compiles, and so do we: a variable set later in a scope is undefined before, even where the context has one.
enum class Source { parameter, context, outer, nothing };
struct Load {
  NameId name;
  Source source;
};
using Loads = std::vector<Load>;

enum class StmtKind {
  text,        // text
  output,      // {{ expr }}
  condition,   // branches: the first whose expr is true (null: else)
  loop,        // for targets[0] in expr if test: body else: other
  set,         // targets[0] = expr
  set_block,   // targets[0] = body, through expr (filters) where there is one
  macro,       // macro
  call_block,  // expr is the call, macro its body
  filter_block,
  with,  // targets = values: body
  generation,
  leave,      // break
  next_turn,  // continue
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Branch {
  ExprPtr test;
  Body body;
};

struct Macro {
  std::string name;
  std::vector<NameId> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  Loads loads;
  bool takes_caller = false, takes_kwargs = false, takes_varargs = false;
};

struct Stmt {
  explicit Stmt(StmtKind what) : kind(what) {}
  StmtKind kind;
  int line = 0;
  std::string text;
  ExprPtr expr, test;
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  std::vector<Branch> branches;
  Body body, other;
  Loads loads, test_loads, other_loads;
  std::unique_ptr<Macro> macro;
};

struct SpecialNames {
  NameId loop, self, caller, varargs, kwargs;
};

/// A parsed template; constant, and shared by all renderings.
struct Program {
  std::string source;  // line ends made \n
  std::vector<std::string> names;
  SpecialNames special{};
  Body body;
  Loads loads;
};

}  // namespace tpinfer::jinja
