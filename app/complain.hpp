#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "app/paint.hpp"
#include "core/error.hpp"

namespace tpinfer {

/// The exit code of a failure; `internal` for what is no Error.
ExitCode code_of(const std::exception& e) noexcept;

/// A fault of a job file, FILE:LINE:COLUMN: error: ..., with the word coloured; one without a place in a file, as of
/// --set, as any other complaint.
std::string painted_fault(std::string_view line, const Paint& paint);

/// Tells it on standard error: `tpinfer: error: ...`; complaints about a job file as the lines that they are, each with
/// its place; an early stop without the word.
void complain(const std::exception& e, const Paint& paint);

}  // namespace tpinfer
