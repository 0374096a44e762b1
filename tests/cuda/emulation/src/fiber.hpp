#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace cuda_emulation {

/// The stacks of the threads of one block, and the switch between them: one for each thread, made once, used by all
/// kernels. Switching saves the registers that a call preserves and nothing else.
class Fibers {
 public:
  static constexpr int kMost = 1024;
  using Entry = void (*)();

  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Fiber `index` will begin with entry(), which must not return: it ends with leave() and is never resumed then.
  void prepare(int index, Entry entry);
  /// Runs fiber `index` until it calls leave().
  void resume(int index);
  /// From the running fiber back to the caller of resume().
  void leave();
  /// Whether `address` is in the guard page of a stack: a fiber that used up its stack.
  bool in_guard(const void* address) const noexcept;

 private:
  struct Context;
  void* memory_ = nullptr;
  std::vector<Context> contexts_;
  std::unique_ptr<Context> main_;
  int current_ = -1;
};

}  // namespace cuda_emulation
