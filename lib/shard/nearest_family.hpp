#pragma once

#include <string>
#include <vector>

namespace tpinfer {

/// For a model that is not supported: the family whose tensor names are most like these, and which of them do not fit:
/// "its tensors are most like those of NAME, but 2 kinds do not fit: ...". Empty when hardly any fits.
std::string nearest_family(const std::vector<std::string>& names);

}  // namespace tpinfer
