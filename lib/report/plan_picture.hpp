#pragma once

#include <string>
#include <vector>

#include "output/run_result.hpp"
#include "report/html.hpp"

namespace tpinfer {

/// Tensors that are cut alike: of the same shape, role and slices, with names that differ in numbers alone.
struct PlanGroup {
  std::string name;  ///< "layers.{0-31}.mlp.up.weight"
  std::size_t tensors = 0;
  const PlanTensorRow* first = nullptr;
  std::vector<const PlanSliceRow*> slices;  ///< of the first
};
/// In the order of their first tensors. Slices of no tensor are left out.
std::vector<PlanGroup> plan_groups(const RunResult& result);

/// Who holds which part of which tensor: a strip for each group, a lane in it for each rank.
Html plan_picture(const RunResult& result);

}  // namespace tpinfer
