#include "app/complain.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "job/job.hpp"

namespace tpinfer {

ExitCode code_of(const std::exception& e) noexcept {
  const auto* error = dynamic_cast<const Error*>(&e);
  return error ? error->code() : ExitCode::internal;
}

void complain(const std::exception& e, const Paint& paint) {
  if (dynamic_cast<const JobError*>(&e))
    fmt::print(stderr, "{}\n", e.what());
  else
    fmt::print(stderr, "tpinfer: {}{}\n", code_of(e) == ExitCode::stopped_early ? "" : paint.error("error:") + " ",
               e.what());
  std::fflush(stderr);
}

}  // namespace tpinfer
