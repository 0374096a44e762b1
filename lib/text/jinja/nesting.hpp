#pragma once

#include "text/jinja/interpreter.hpp"

namespace tpinfer::jinja {

// Evaluations inside evaluations, macros included: a bound for the stack.
inline constexpr int kMostEvaluations = 1200;

class Interpreter::Nesting {
 public:
  explicit Nesting(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.nesting_ >= kMostEvaluations) fail("the template calls itself too deeply");
    ++interpreter.nesting_;
    interpreter.budget_.work();
  }
  ~Nesting() { --interpreter_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Interpreter& interpreter_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), before_(interpreter.out_), output_(interpreter.budget_) {
    interpreter.out_ = &output_;
  }
  ~Capture() { interpreter_.out_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string take() { return output_.take(); }

 private:
  Interpreter& interpreter_;
  Output* before_;
  Output output_;
};

class Interpreter::InScope {
 public:
  InScope(Interpreter& interpreter, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), before_(std::exchange(interpreter.scope_, std::move(scope))) {}
  ~InScope() { interpreter_.scope_ = std::move(before_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> before_;
};

}  // namespace tpinfer::jinja
