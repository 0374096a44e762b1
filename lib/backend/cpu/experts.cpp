#include "backend/cpu/experts.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

/// Experts whose weights lie on the stack.
constexpr std::int64_t kNearExperts = 512;

// Softmax in place; the sum in ascending order.
void softmax(std::span<float> values, Exponentials exponentials) {
  const float best = *std::ranges::max_element(values);
  for (float& v : values) v -= best;
  exponentials(values.data(), values.data(), static_cast<std::int64_t>(values.size()));
  float sum = 0;
  for (const float v : values) sum += v;
  for (float& v : values) v /= sum;
}

void route_row(const float* logits, const RoutingParams& params, Exponentials exponentials, std::int32_t* experts,
               float* weights, std::span<float> scratch) {
  std::copy_n(logits, params.experts, scratch.begin());
  softmax(scratch, exponentials);
  float sum = 0;
  for (std::int64_t k = 0; k < params.per_token; ++k) {
    const auto best = std::ranges::max_element(scratch);  // the first of equals
    experts[k] = static_cast<std::int32_t>(best - scratch.begin());
    weights[k] = *best;
    sum += *best;
    *best = -1.0F;
  }
  if (params.renormalise)
    for (std::int64_t k = 0; k < params.per_token; ++k) weights[k] /= sum;
  if (!params.shared) return;
  float gate = -logits[params.experts];
  exponentials(&gate, &gate, 1);
  experts[params.per_token] = static_cast<std::int32_t>(params.experts);
  weights[params.per_token] = 1.0F / (1.0F + gate);
}

}  // namespace

void cpu_route(ParallelFor& parallel, Exponentials exponentials, const Tensor& logits, const RoutingParams& params,
               const Routing& routing) {
  if (routing.slots != params.per_token + (params.shared ? 1 : 0) ||
      logits.cols != params.experts + (params.shared ? 1 : 0))
    throw Error(ExitCode::internal, fmt::format("{} slots and {} logits for {} experts, {} a token", routing.slots,
                                                logits.cols, params.experts, params.per_token));
  parallel.run(logits.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    float near[kNearExperts];
    std::vector<float> far;
    if (params.experts > kNearExperts) far.resize(static_cast<std::size_t>(params.experts));
    const std::span<float> scratch(far.empty() ? near : far.data(), static_cast<std::size_t>(params.experts));
    for (std::int64_t row = begin; row < end; ++row)
      route_row(logits.floats() + row * logits.cols, params, exponentials, routing.experts + row * routing.slots,
                routing.weights + row * routing.slots, scratch);
  });
}

void ExpertGroups::group(const Routing& routing, std::int64_t row_count, std::int64_t experts) {
  begin.assign(static_cast<std::size_t>(experts) + 1, 0);
  const std::int64_t entries = row_count * routing.slots;
  for (std::int64_t i = 0; i < entries; ++i) ++begin[static_cast<std::size_t>(routing.experts[i]) + 1];
  for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) begin[e + 1] += begin[e];
  rows.resize(static_cast<std::size_t>(entries));
  weights.resize(static_cast<std::size_t>(entries));
  at_.assign(begin.begin(), begin.end() - 1);
  for (std::int64_t i = 0; i < entries; ++i) {
    const auto to = static_cast<std::size_t>(at_[static_cast<std::size_t>(routing.experts[i])]++);
    rows[to] = static_cast<std::int32_t>(i / routing.slots);
    weights[to] = routing.weights[i];
  }
}

}  // namespace tpinfer
