#include "app/print.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "core/error.hpp"

namespace tpinfer {

void print_all(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ExitCode::output, "standard output cannot be written", "make room where it goes");
}

}  // namespace tpinfer
