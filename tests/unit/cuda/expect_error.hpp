#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"

namespace tpinfer {

/// Runs `work`, which must throw an Error with this code; returns its text.
template <class Work>
std::string expect_error(ExitCode code, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace tpinfer
