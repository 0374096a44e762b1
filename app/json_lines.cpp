#include "app/json_lines.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace tpinfer {
namespace {

[[noreturn]] void output_failed() {
  throw Error(ExitCode::output, fmt::format("standard output can not be written: {}", system_message(errno)));
}

// Readers that take more than \n for the end of a line cut at these characters: they are written as escapes.
void escape_line_ends(std::string& line) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
  for (const auto& [bytes, escape] : kEscapes)
    for (std::size_t at = line.find(bytes); at != std::string::npos; at = line.find(bytes, at + escape.size()))
      line.replace(at, bytes.size(), escape);
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
  std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  escape_line_ends(line);
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) output_failed();
}

void flush_output() {
  if (std::fflush(stdout) != 0) output_failed();
}

}  // namespace tpinfer
