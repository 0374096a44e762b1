#pragma once

#include <deque>
#include <vector>

#include "runtime/request.hpp"

namespace tpinfer {

/// Requests that come when the test says so.
struct Drip final : LateRequests {
  std::deque<Request> come;
  bool over = false;
  bool broken = false;
  std::vector<std::chrono::milliseconds> waits;  ///< patience of each take

  std::vector<Request> take(std::chrono::milliseconds patience) override {
    waits.push_back(patience);
    std::vector<Request> out(come.begin(), come.end());
    come.clear();
    return out;
  }
  bool ended() const override { return over && come.empty(); }
  bool failed() const override { return broken; }
};

}  // namespace tpinfer
