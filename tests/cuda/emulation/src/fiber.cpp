#include "fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <new>

namespace cuda_emulation {
namespace {

constexpr std::size_t kStack = 128 << 10;
constexpr std::size_t kGuard = 4096;

std::byte* stack_of(void* memory, int index) {
  return static_cast<std::byte*>(memory) + static_cast<std::size_t>(index) * kStack;
}

}  // namespace

#if defined(__x86_64__)

extern "C" void cuda_emulation_switch(void** save, void* load);
asm(R"(
.text
.globl cuda_emulation_switch
.type cuda_emulation_switch, @function
cuda_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_emulation_switch, . - cuda_emulation_switch
)");

struct Fibers::Context {
  void* stack_pointer = nullptr;
};

void Fibers::prepare(int index, Entry entry) {
  // The switch pops six registers and returns to the entry, where the stack must be as after a call: 8 below a multiple
  // of 16.
  auto** top = reinterpret_cast<void**>(stack_of(memory_, index) + kStack) - 1;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  contexts_[static_cast<std::size_t>(index)].stack_pointer = top;
}

void Fibers::resume(int index) {
  current_ = index;
  cuda_emulation_switch(&main_->stack_pointer, contexts_[static_cast<std::size_t>(index)].stack_pointer);
}

void Fibers::leave() {
  cuda_emulation_switch(&contexts_[static_cast<std::size_t>(current_)].stack_pointer, main_->stack_pointer);
}

#else

struct Fibers::Context {
  ucontext_t context;
};

void Fibers::prepare(int index, Entry entry) {
  ucontext_t& context = contexts_[static_cast<std::size_t>(index)].context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_of(memory_, index) + kGuard;
  context.uc_stack.ss_size = kStack - kGuard;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}

void Fibers::resume(int index) {
  current_ = index;
  swapcontext(&main_->context, &contexts_[static_cast<std::size_t>(index)].context);
}

void Fibers::leave() { swapcontext(&contexts_[static_cast<std::size_t>(current_)].context, &main_->context); }

#endif

Fibers::Fibers() : contexts_(kMost), main_(std::make_unique<Context>()) {
  memory_ = mmap(nullptr, kMost * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  for (int i = 0; i < kMost; ++i) mprotect(stack_of(memory_, i), kGuard, PROT_NONE);
}

Fibers::~Fibers() { munmap(memory_, kMost * kStack); }

bool Fibers::in_guard(const void* address) const noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(memory_);
  return offset < kMost * kStack && offset % kStack < kGuard;
}

}  // namespace cuda_emulation
