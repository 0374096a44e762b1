#pragma once

#include <cstdint>
#include <memory>

namespace tpinfer {

/// What is done with the items [begin, end): a reference to something callable, which must outlive it. Unlike
/// std::function it takes no memory.
class RangeBody {
 public:
  template <class Body>
  RangeBody(const Body& body)  // NOLINT: implicit, so that a lambda can be handed over
      : body_(std::addressof(body)), call_([](const void* of, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Body*>(of))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(body_, begin, end); }

 private:
  const void* body_;
  void (*call_)(const void*, std::int64_t, std::int64_t);
};

/// Work divided over the threads of one rank. Which thread does what never changes a result.
class ParallelFor {
 public:
  virtual ~ParallelFor() = default;
  virtual int threads() const noexcept = 0;
  /// Calls body(begin, end) on disjoint ranges that cover [0, count); returns when all are done. Ranges start at
  /// multiples of `grain`.
  virtual void run(std::int64_t count, std::int64_t grain, const RangeBody& body) = 0;
};

}  // namespace tpinfer
