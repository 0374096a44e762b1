#pragma once

#include <cstdint>
#include <functional>

namespace tpinfer {

/// Work divided over the threads of one rank. Which thread does what never changes a result.
class ParallelFor {
 public:
  virtual ~ParallelFor() = default;
  virtual int threads() const noexcept = 0;
  /// Calls body(begin, end) on disjoint ranges that cover [0, count); returns when all are done. Ranges start at
  /// multiples of `grain`.
  virtual void run(std::int64_t count, std::int64_t grain,
                   const std::function<void(std::int64_t, std::int64_t)>& body) = 0;
};

}  // namespace tpinfer
