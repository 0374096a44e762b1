#include "app/cmd_verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/print.hpp"
#include "app/table.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "output/file_checksum.hpp"
#include "output/result_check.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

// Whether there is a result file, and not a journal alone.
bool is_result(const std::filesystem::path& file) {
  std::error_code failed;
  return file.extension() != ".journal" && std::filesystem::exists(file, failed);
}

std::vector<ResultCheck> check(const std::filesystem::path& file) {
  std::vector<ResultCheck> checks;
  std::vector<std::string> damage;
  try {
    const RunResult result = read_answers(file, &damage);
    if (is_result(file))
      checks.push_back({true, check_checksum(file) == ChecksumState::right
                                  ? "the file's bytes match its checksum"
                                  : "the file can be read; it has no checksum, so another program has written to it"});
    for (const std::string& place : damage) checks.push_back({false, place});
    std::ranges::move(check_result(result), std::back_inserter(checks));
  } catch (const Error& e) {
    checks.push_back({false, e.what()});
  }
  return checks;
}

std::string as_json(const std::vector<ResultCheck>& checks, bool sound) {
  Json list = Json::array();
  for (const ResultCheck& check : checks) list.push_back({{"ok", check.good}, {"message", check.what}});
  const Json out{{"sound", sound}, {"checks", list}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  const std::vector<ResultCheck> checks = check(options.file);
  const bool sound = std::ranges::all_of(checks, &ResultCheck::good);
  if (options.json) {
    print_all(as_json(checks, sound));
  } else {
    std::string text;
    for (const ResultCheck& check : checks)
      text += fmt::format("{} {}\n", check.good ? options.paint.good("[OK]  ") : options.paint.error("[FAIL]"),
                          printable(check.what));
    text += fmt::format("{}: {}\n", options.file.string(), sound ? "sound" : "not sound");
    print_all(text);
  }
  return static_cast<int>(sound ? ExitCode::ok : ExitCode::input);
}

}  // namespace tpinfer
