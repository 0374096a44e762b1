#pragma once

#include <filesystem>
#include <string>

namespace tpinfer {

struct ReportCommand {
  std::filesystem::path file;
  std::string output;  ///< a file, or - for standard output
};

/// `tpinfer report`: a result file, or what a running job has so far, as one HTML page. Returns the exit code.
int run_report(const ReportCommand& command);

}  // namespace tpinfer
