#pragma once

#include <cstdlib>
#include <string>

namespace tpinfer {

/// An environment variable; empty when it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace tpinfer
