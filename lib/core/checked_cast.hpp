#pragma once

#include <concepts>
#include <utility>

#include "core/error.hpp"

namespace tpinfer {

/// Integer conversion that throws Error(internal) when the value does not fit; every narrowing to an MPI or BLAS `int`
/// goes through it.
template <std::integral To, std::integral From>
constexpr To checked_cast(From value) {
  if (!std::in_range<To>(value))
    throw Error(ExitCode::internal, fmt::format("the number {} does not fit in {} bits", value, 8 * sizeof(To)));
  return static_cast<To>(value);
}

}  // namespace tpinfer
