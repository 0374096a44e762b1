#pragma once

#include <cstdint>

namespace tpinfer::testing {

/// Calls of operator new so far, of all threads. Link counted_memory.cpp into the program.
std::int64_t allocations() noexcept;

}  // namespace tpinfer::testing
