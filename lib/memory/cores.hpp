#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tpinfer {

/// Numbers of the processors that a process may run on, ascending; 0: the calling thread. None where the kernel does
/// not tell.
std::vector<int> allowed_cores(int process = 0);

/// How many threads one of `ranks` ranks of a host should compute with: the cores that it may use, which are its own
/// where it is bound to fewer than are `online` and otherwise shared out; in all no more than a control group's `quota`
/// allows. At least 1.
int threads_of_rank(int cores, int online, std::optional<double> quota, int ranks);

/// "0-3,8" from ascending numbers.
std::string core_list(const std::vector<int>& cores);

}  // namespace tpinfer
