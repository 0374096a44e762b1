#pragma once

#include <functional>
#include <string>

#include "emulation/kernel.hpp"

namespace cuda_emulation {

/// What launches a kernel, by value: it may run late and, in a graph, often.
struct KernelCall {
  const void* kernel = nullptr;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  std::function<void()> body;
};

/// Runs all blocks, one after the other; threads of a block run as far as they can, one after the other, in an order
/// that changes from block to block, so that a missing barrier shows. Ends the program with a sentence when threads
/// wait for each other in vain.
void run_grid(const KernelCall& call);

/// "kernel at +0x1234 of PROGRAM, block (1, 0, 0), thread (5, 0, 0)" while one runs; else empty.
std::string running_place();
bool in_fiber_guard(const void* address);

}  // namespace cuda_emulation
