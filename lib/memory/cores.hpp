#pragma once

#include <string>
#include <vector>

namespace tpinfer {

/// Numbers of the processors that the calling thread may run on, ascending.
std::vector<int> allowed_cores();

/// "0-3,8" from ascending numbers.
std::string core_list(const std::vector<int>& cores);

}  // namespace tpinfer
