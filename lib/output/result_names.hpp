#pragma once

#include <array>
#include <cstddef>

#include "output/run_result.hpp"

namespace tpinfer {

inline constexpr const char* kResultFormat = "tpinfer-results";
inline constexpr std::int32_t kResultFormatVersion = 1;

/// Names of the enums in order of their values, as the result file and the JSON outputs spell them.
inline constexpr std::array<const char*, 3> kRunStateNames{"complete", "partial", "failed"};
inline constexpr std::array<const char*, 4> kPromptStatusNames{"done", "failed", "skipped", "pending"};
inline constexpr std::array<const char*, 5> kFinishReasonNames{"stop", "stop_string", "length", "context", "error"};

inline const char* name_of(RunState state) { return kRunStateNames.at(static_cast<std::size_t>(state)); }
inline const char* name_of(PromptStatus status) { return kPromptStatusNames.at(static_cast<std::size_t>(status)); }
inline const char* name_of(FinishReason reason) { return kFinishReasonNames.at(static_cast<std::size_t>(reason)); }

}  // namespace tpinfer
