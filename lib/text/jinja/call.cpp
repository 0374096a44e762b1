#include <algorithm>

#include "text/jinja/nesting.hpp"

namespace tpinfer::jinja {
namespace {

constexpr Int kLongestRange = 100000;  // of the reference's sandbox

Value make_range(Interpreter&, const Value&, const Arguments& arguments) {
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  if (!arguments.named.empty()) fail("range() takes no keyword arguments");
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    if (!bound.given(i)) fail("'NoneType' object cannot be interpreted as an integer");
  const bool one = arguments.positional.size() == 1;
  const Int start = one ? 0 : bound.number(0, 0);
  const Int stop = bound.number(one ? 0 : 1, 0);
  const Int step = bound.number(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  constexpr Int kFarthest = Int{1} << 62;
  for (const Int number : {start, stop, step})
    if (number > kFarthest || number < -kFarthest) fail("range() of numbers beyond 62 bits is not supported");
  const Int gap = step > 0 ? stop - start : start - stop;
  const Int width = step > 0 ? step : -step;
  const Int size = gap <= 0 ? 0 : (gap + width - 1) / width;
  if (size > kLongestRange)
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", repr(kLongestRange));
  return Value(std::make_shared<const Range>(Range{start, stop, step, size}));
}

// dict() and namespace(): one dict at most, then keywords.
Dict keyword_dict(std::string_view function, Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    fail("{} expected at most 1 argument, got {}", function, arguments.positional.size());
  Dict dict;
  for (const Value& first : arguments.positional) {
    if (!first.as_dict()) fail("{}() of a value of the type {} is not supported", function, type_name(first));
    for (const auto& [key, value] : first.as_dict()->items) dict.set(key, value, interpreter.budget());
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value, interpreter.budget());
  return dict;
}

Value make_dict(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  return Value(std::make_shared<const Dict>(keyword_dict("dict", interpreter, arguments)));
}

Value make_namespace(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  Namespace space;
  for (const auto& [key, value] : keyword_dict("namespace", interpreter, arguments).items) {
    const Text* name = key.as_text();
    if (!name) fail("a namespace cannot store the key of the type {}", type_name(key));
    if (name->bytes.starts_with('_'))
      fail("a namespace cannot store the underscore-prefixed attribute '{}'", name->bytes);
    space.set(name->bytes, value);
  }
  return interpreter.make_namespace(std::move(space));
}

Value raise_exception(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Fault(FaultKind::raised, str(*bound[0], interpreter.budget()));
}

Value strftime_now(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  return make_text(interpreter.format_now()(bound.text(0)), interpreter.budget());
}

Value refused(Interpreter&, const Value&, const Arguments&) { fail("lipsum, cycler and joiner are not supported"); }

}  // namespace

const Value* find_global(std::string_view name) {
  static const auto kGlobals = [] {
    std::vector<std::pair<std::string_view, Value>> globals;
    for (const auto& [global, function] :
         std::initializer_list<std::pair<std::string_view, Callable::Function>>{{"range", make_range},
                                                                                {"dict", make_dict},
                                                                                {"namespace", make_namespace},
                                                                                {"raise_exception", raise_exception},
                                                                                {"strftime_now", strftime_now},
                                                                                {"lipsum", refused},
                                                                                {"cycler", refused},
                                                                                {"joiner", refused}})
      globals.emplace_back(global,
                           Value(std::make_shared<const Callable>(Callable{std::string(global), function, Value()})));
    return globals;
  }();
  const auto found = std::ranges::find(kGlobals, name, [](const auto& global) { return global.first; });
  return found == kGlobals.end() ? nullptr : &found->second;
}

Interpreter::Interpreter(const Program& program, std::shared_ptr<const Dict> variables, const FormatNow& format_now,
                         Budget& budget)
    : program_(program), variables_(std::move(variables)), format_now_(format_now), budget_(budget) {}

// Namespaces may hold each other. They are emptied while all of them are still held here, so that freeing one never
// frees a long chain of others.
Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->items.clear();
}

std::string Interpreter::render() {
  auto root = std::make_shared<Scope>();
  root->slots.emplace_back(program_.special.self, Value(Value::Storage(SelfReference{})));
  enter(*root, program_.loads);
  const InScope inside(*this, root);
  Capture capture(*this);
  execute(program_.body);
  return capture.take();
}

Value Interpreter::make_namespace(Namespace content) {
  budget_.make(sizeof(Namespace) + content.items.size() * sizeof(Value));
  namespaces_.push_back(std::make_shared<Namespace>(std::move(content)));
  return Value(namespaces_.back());
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  budget_.work();
  if (const auto* info = callee.get<const UndefinedInfo>()) fail("{}", info->message);
  if (const auto* callable = callee.get<const Callable>()) return callable->function(*this, callable->self, arguments);
  if (const auto* macro = callee.get<const MacroObject>()) return call_macro(*macro, arguments);
  if (callee.get<LoopState>()) fail("recursive loops are not supported");
  fail("'{}' object is not callable", type_name(callee));
}

Value Interpreter::call_macro(const MacroObject& object, const Arguments& arguments) {
  const Macro& macro = *object.macro;
  const auto scope = std::make_shared<Scope>();
  scope->outer = object.scope.lock();
  if (!scope->outer) fail("calling a macro from outside of the block that defines it is not supported");
  auto named = arguments.named;
  const auto take = [&named](std::string_view name) {
    std::optional<Value> taken;
    const auto found = std::ranges::find(named, name, [](const auto& item) { return std::string_view(item.first); });
    if (found == named.end()) return taken;
    taken = std::move(found->second);
    named.erase(found);
    return taken;
  };
  const std::size_t count = macro.parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    const NameId name = macro.parameters[i];
    scope->slots.emplace_back(
        name, i < arguments.positional.size() ? std::optional(arguments.positional[i]) : take(program_.names[name]));
  }
  if (macro.takes_caller) {
    const auto caller = take("caller");
    scope->slots.emplace_back(program_.special.caller,
                              caller && !caller->is_none() ? *caller : Value::undefined("No caller defined"));
  }
  if (macro.takes_kwargs) {
    auto rest = std::make_shared<Dict>();
    for (auto& [name, value] : named) rest->set(Value(name), std::move(value), budget_);
    scope->slots.emplace_back(program_.special.kwargs, Value(std::shared_ptr<const Dict>(std::move(rest))));
  } else if (!named.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", macro.name, named.front().first);
  }
  if (macro.takes_varargs) {
    const auto first =
        arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    scope->slots.emplace_back(program_.special.varargs,
                              make_tuple(std::vector<Value>(first, arguments.positional.end()), budget_));
  } else if (arguments.positional.size() > count) {
    fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  enter(*scope, macro.loads);
  const InScope inside(*this, scope);
  return run_macro(macro);
}

// In the macro's scope: gives absent parameters their defaults and renders the body.
Value Interpreter::run_macro(const Macro& macro) {
  const std::size_t first_default = macro.parameters.size() - macro.defaults.size();
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const NameId name = macro.parameters[i];
    if (scope_->find(name)->has_value()) continue;
    Value value = i < first_default
                      ? Value::undefined(fmt::format("parameter '{}' was not provided", program_.names[name]))
                      : evaluate(*macro.defaults[i - first_default]);
    *scope_->find(name) = std::move(value);
  }
  Capture capture(*this);
  execute(macro.body);
  return Value(capture.take());
}

}  // namespace tpinfer::jinja
