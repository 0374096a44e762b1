#pragma once

#include <string>
#include <vector>

#include "backend/factory.hpp"
#include "job/job.hpp"
#include "output/run_result.hpp"
#include "runtime/preparation.hpp"

namespace tpinfer {

/// Size and hash of a file: of the whole file up to 8 MiB, else of its two ends and 64 blocks evenly between.
/// Error(input) when it cannot be read.
RunIdentity::File file_identity(const std::filesystem::path& path, const std::string& name);

/// What the answers of this job depend on besides prompts and parameters: weights, configuration and tokenizer files,
/// type computed in, version of the numerics, kernels.
RunIdentity identity_of(const Job& job, const Preparation& prepared, KernelSet kernels);

/// What differs, a few words each: "dtype: float32 there, bfloat16 now"; none when both may add to the same answers.
std::vector<std::string> differences(const RunIdentity& there, const RunIdentity& now);

}  // namespace tpinfer
