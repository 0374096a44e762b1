#pragma once

#include "core/json.hpp"
#include "job/job.hpp"

namespace tpinfer {

/// What resolved_json prints: every key in the order of the job file.
Json job_json(const Job& job, const SamplingRequest& generation_config);

/// The `sampling` section of `params`.
Json sampling_json(const SamplingParams& params);

}  // namespace tpinfer
