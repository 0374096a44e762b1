#pragma once

#include <initializer_list>

namespace tpinfer::testing {

/// From now on every system call of this process, in all its threads, is counted instead of done and fails with EAGAIN,
/// but for those that are named and for what ends the process. There is no way back: for a child process. False where
/// the kernel does not allow it.
bool refuse_system_calls(std::initializer_list<int> allowed);

/// What was refused so far.
struct RefusedCalls {
  int count = 0;
  int last = -1;  ///< number of the last one
};
RefusedCalls refused_calls() noexcept;

}  // namespace tpinfer::testing
