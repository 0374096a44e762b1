#include "runtime/time_limit.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>

#include "core/file_handle.hpp"

extern char** environ;

namespace tpinfer {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
}

// What `squeue -h -j ID -o %e` prints: the local time at which a job must end.
std::string ask_squeue(const std::string& id) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const FileHandle out(ends[0]);
  FileHandle in(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;  // signals are blocked here, not there
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::array<std::string, 6> words{"squeue", "-h", "-j", id, "-o", "%e"};
  std::array<char*, 7> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  pid_t child = 0;
  const bool started = ::posix_spawnp(&child, "squeue", &actions, &attributes, arguments.data(), environ) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  in.reset();
  if (!started) return {};
  std::string text;
  std::array<char, 256> buffer{};
  for (ssize_t n = 0; (n = ::read(out.get(), buffer.data(), buffer.size())) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0 ? text : std::string();
}

// "2026-01-31T12:00:00", local time; "N/A" and the like give nothing
std::optional<double> seconds_until(const std::string& text) {
  std::tm local{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
  if (!end) return std::nullopt;
  local.tm_isdst = -1;
  const std::time_t then = std::mktime(&local);
  if (then == -1) return std::nullopt;
  return std::difftime(then, std::time(nullptr));
}

}  // namespace

std::optional<double> seconds_left(const TimeLimit& limit, double elapsed, const Environment& environment,
                                   const Log& log) {
  if (!limit.automatic) return limit.seconds ? std::optional(*limit.seconds - elapsed) : std::nullopt;
  if (const std::string end = environment("SLURM_JOB_END_TIME"); !end.empty()) {
    if (is_number(end)) return std::difftime(static_cast<std::time_t>(std::stoll(end)), std::time(nullptr));
    log.warning("SLURM_JOB_END_TIME is \"{}\", which is no time: the job runs without a time limit", end);
    return std::nullopt;
  }
  const std::string id = environment("SLURM_JOB_ID");
  return is_number(id) ? seconds_until(ask_squeue(id)) : std::nullopt;
}

double stop_margin(const RunJob& run, const Log& log) {
  const auto& limit = run.time_limit;
  if (limit.automatic || !limit.seconds || run.stop_margin <= *limit.seconds / 2) return run.stop_margin;
  log.warning("run.stop_margin ({:g}s) leaves too little of run.time_limit ({:g}s): half of that is taken",
              run.stop_margin, *limit.seconds);
  return *limit.seconds / 2;
}

}  // namespace tpinfer
