#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cuda_emulation {

/// Errors that are asked for by TPINFER_EMULATION_FAIL: at the k-th visit of a point, or from there on.
class FaultPlan {
 public:
  FaultPlan();
  /// The name of the error that this visit of `point` meets; null: none.
  const char* visit(const char* point);
  bool empty() const noexcept { return faults_.empty(); }

 private:
  struct Fault {
    std::string point;
    std::uint64_t at = 1;
    bool from_then_on = false;
    std::string error;
    std::uint64_t visits = 0;
  };
  std::vector<Fault> faults_;
};

}  // namespace cuda_emulation
