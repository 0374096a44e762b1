#include "app/paint.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace tpinfer {
namespace {

// https://no-color.org: any value but an empty one
bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}

bool knows_colours() {
  if (is_set("OMPI_COMM_WORLD_SIZE")) return false;  // mpirun hands out terminals of its own, whatever it writes to
  const char* terminal = std::getenv("TERM");
  return terminal && *terminal && std::string_view(terminal) != "dumb";
}

}  // namespace

Paint::Paint(std::string_view wish, int fd)
    : on_(wish == "always" || (wish == "auto" && !is_set("NO_COLOR") && knows_colours() && ::isatty(fd))) {}

std::string Paint::dress(std::string_view text, std::string_view code) const {
  return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace tpinfer
