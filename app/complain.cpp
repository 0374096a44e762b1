#include "app/complain.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "job/job.hpp"

namespace tpinfer {

ExitCode code_of(const std::exception& e) noexcept {
  const auto* error = dynamic_cast<const Error*>(&e);
  return error ? error->code() : ExitCode::internal;
}

std::string painted_fault(std::string_view line, const Paint& paint) {
  constexpr std::string_view kWord = ": error: ";
  const std::size_t at = line.find(kWord);
  if (at == std::string_view::npos) return fmt::format("tpinfer: {} {}", paint.error("error:"), line);
  return fmt::format("{}: {} {}", line.substr(0, at), paint.error("error:"), line.substr(at + kWord.size()));
}

void complain(const std::exception& e, const Paint& paint) {
  if (const auto* faults = dynamic_cast<const JobError*>(&e))
    for (const std::string& line : faults->lines()) fmt::print(stderr, "{}\n", painted_fault(line, paint));
  else
    fmt::print(stderr, "tpinfer: {}{}\n", code_of(e) == ExitCode::stopped_early ? "" : paint.error("error:") + " ",
               e.what());
  std::fflush(stderr);
}

}  // namespace tpinfer
