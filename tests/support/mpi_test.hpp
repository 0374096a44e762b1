#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "comm/communicator.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer::testing {

/// All ranks of the test program; made and ended by mpi_test_main. Its deadline is far above any wait of a sound test.
Communicator& world();

/// ParallelFor on the calling thread.
class SerialFor final : public ParallelFor {
 public:
  int threads() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, const RangeBody& body) override {
    if (count > 0) body(0, count);
  }
};

/// ParallelFor with two threads, started anew for each call.
class PairFor final : public ParallelFor {
 public:
  int threads() const noexcept override { return 2; }
  void run(std::int64_t count, std::int64_t grain, const RangeBody& body) override {
    if (count <= 0) return;
    const std::int64_t middle = std::min(count, (count / 2 + grain - 1) / grain * grain);
    std::thread other([&] {
      if (middle < count) body(middle, count);
    });
    if (middle > 0) body(0, middle);
    other.join();
  }
};

}  // namespace tpinfer::testing
