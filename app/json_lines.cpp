#include "app/json_lines.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "core/error.hpp"

namespace tpinfer {
namespace {

[[noreturn]] void output_failed() {
  throw Error(ExitCode::output, fmt::format("standard output can not be written: {}", system_message(errno)));
}

}  // namespace

void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& where)>& visit) {
  const bool is_stdin = file == "-";
  const std::string name = is_stdin ? "standard input" : file;
  std::ifstream opened;
  if (!is_stdin) opened.open(file, std::ios::binary);
  if (!is_stdin && !opened) fail_input("{}: can not be opened: {}", file, system_message(errno));
  std::istream& in = is_stdin ? std::cin : opened;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    visit(line, fmt::format("{}:{}", name, number));
    if (is_stdin) flush_output();
  }
  if (in.bad()) fail_input("{}: can not be read: {}", name, system_message(errno));
}

void write_json_line(const Json& json) {
  const std::string line = json_line(json);
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) output_failed();
}

void flush_output() {
  if (std::fflush(stdout) != 0) output_failed();
}

}  // namespace tpinfer
