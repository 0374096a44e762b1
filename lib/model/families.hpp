#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/family_spec.hpp"

namespace tpinfer {

/// Every supported family, in the order of `tpinfer models`.
std::span<const FamilySpec* const> all_families() noexcept;

/// The family that claims this architecture name, or null.
const FamilySpec* family_of(std::string_view architecture) noexcept;

/// All architecture names, for messages.
std::vector<std::string> supported_architectures();

}  // namespace tpinfer
