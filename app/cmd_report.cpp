#include "app/cmd_report.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "app/print.hpp"
#include "core/error.hpp"
#include "output/part_file.hpp"
#include "output/stored_answers.hpp"
#include "report/page.hpp"

namespace tpinfer {

int run_report(const ReportCommand& command) {
  std::error_code none;
  if (std::filesystem::equivalent(command.file, command.output, none))
    throw Error(ExitCode::usage, fmt::format("{} is the result file itself", command.output),
                "name another file for -o");
  std::vector<std::string> damage;
  const RunResult result = read_answers(command.file, &damage);
  for (const std::string& sentence : damage) fmt::print(stderr, "tpinfer: warning: {}\n", sentence);
  const std::string page = report_page(result, command.file.string());
  if (command.output == "-") {
    print_all(page);
  } else {
    PartFile file(command.output, "file for -o");
    file.write(page);
    file.commit();
  }
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
