#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"

namespace tpinfer {
namespace {

const CudaMatrix& own(const PackedMatrix* matrix) { return dynamic_cast<const CudaMatrix&>(*matrix); }

/// `widest` takes in one more matrix.
void include(cuda::WeightView& widest, const cuda::WeightView& one) {
  const bool first = widest.data == nullptr;
  widest.rows = std::max(widest.rows, one.rows);
  widest.aligned = one.aligned && (first || widest.aligned);
  widest.data = one.data;
}

/// Cuts one allocation into arrays.
class Carver {
 public:
  explicit Carver(void* memory) : at_(static_cast<std::byte*>(memory)) {}
  template <class T>
  T* take(std::int64_t count) {
    T* result = reinterpret_cast<T*>(at_);
    at_ += size<T>(count);
    return result;
  }
  template <class T>
  static std::size_t size(std::int64_t count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
  }

 private:
  std::byte* at_;
};

}  // namespace

const CudaBackend::ExpertTable& CudaBackend::expert_table(std::span<const ExpertMatrices> experts) {
  if (tables_of_ != pool_.destroyed()) expert_tables_.clear();
  tables_of_ = pool_.destroyed();
  ExpertTable& table = expert_tables_[experts.front().gate_up];
  if (table.memory) return table;
  require_no_graph("a table of experts");
  std::vector<cuda::WeightView> views;
  for (const ExpertMatrices& expert : experts) {
    views.push_back(own(expert.gate_up).view());
    include(table.widest_gate_up, views.back());
  }
  for (const ExpertMatrices& expert : experts) {
    views.push_back(own(expert.down).view());
    include(table.widest_down, views.back());
    table.most_channels = std::max<std::int64_t>(table.most_channels, views.back().cols);
  }
  const std::size_t bytes = views.size() * sizeof(cuda::WeightView);
  table.memory = allocate_cuda(bytes, compute_.get());
  ring_.copy(table.memory.get(), views.data(), bytes, compute_.get());
  table.gate_up = static_cast<const cuda::WeightView*>(table.memory.get());
  table.down = table.gate_up + experts.size();
  return table;
}

cuda::ExpertEntries CudaBackend::expert_entries(std::int64_t entries, std::int64_t most_tiles) {
  const std::size_t bytes =
      4 * Carver::size<std::int32_t>(entries) + Carver::size<cuda::RowTile>(most_tiles) + Carver::size<std::int32_t>(1);
  Carver carver(expert_entries_.reserve(bytes, compute_.get()));
  return {.rows = carver.take<std::int32_t>(entries),
          .experts = carver.take<std::int32_t>(entries),
          .weights = carver.take<float>(entries),
          .places = carver.take<std::int32_t>(entries),
          .tiles = carver.take<cuda::RowTile>(most_tiles),
          .tiles_end = carver.take<std::int32_t>(1)};
}

void CudaBackend::route(const Tensor& logits, const RoutingParams& params, const Routing& routing) {
  settle();
  if (routing.slots != params.per_token + (params.shared ? 1 : 0) ||
      logits.cols != params.experts + (params.shared ? 1 : 0))
    throw Error(ExitCode::internal, fmt::format("{} slots and {} logits for {} experts, {} a token", routing.slots,
                                                logits.cols, params.experts, params.per_token));
  cuda::route(logits, params, routing, compute_.get());
}

void CudaBackend::experts(std::span<const ExpertMatrices> experts, const Tensor& x, const Routing& routing,
                          Activation act, bool gated, const ExpertScratch& scratch, const Tensor& partials) {
  settle();
  if (x.rows == 0) return;
  const bool exact = partials.dtype == DType::float64;
  if (exact) check(cudaMemsetAsync(partials.data, 0, partials.bytes(), compute_.get()), "a mixture of experts");
  const ExpertTable& table = expert_table(experts);
  const std::int64_t entries = x.rows * routing.slots;
  const auto count = static_cast<std::int64_t>(experts.size());
  const bool aligned = table.widest_gate_up.aligned && table.widest_down.aligned;
  const int tile_rows = cuda::product_tile_rows(x.dtype, aligned, (entries + count - 1) / count);
  const std::int64_t most_tiles = std::min(entries, entries / tile_rows + count);
  const cuda::ExpertEntries sorted = expert_entries(entries, most_tiles);
  cuda::group_rows(routing, x.rows, count, tile_rows, sorted, compute_.get());

  const Tensor up{scratch.up.data, DType::float32, entries, scratch.up.cols};
  const Tensor activated{scratch.activated.data, scratch.activated.dtype, entries, scratch.activated.cols};
  cuda::Product product{
      .dtype = x.dtype,
      .tile_rows = tile_rows,
      .weights = table.widest_gate_up,
      .groups = {.weights = table.gate_up, .tiles = sorted.tiles, .tiles_end = sorted.tiles_end, .x_rows = sorted.rows},
      .x = x.data,
      .x_stride = x.cols,
      .rows = entries,
      .most_tiles = most_tiles,
      .y = up.floats(),
      .y_stride = up.cols};
  product.weights.aligned = aligned && x.cols % 8 == 0;
  if (product.weights.rows > 0) cuda::multiply(product, processors_, compute_.get());
  cuda::activate(up, table.most_channels, act, gated, activated, {.experts = sorted.experts, .parts = table.down},
                 compute_.get());

  product.weights = table.widest_down;
  product.weights.aligned = aligned && activated.cols % 8 == 0;
  product.groups.weights = table.down;
  product.groups.x_rows = nullptr;
  product.x = activated.data;
  product.x_stride = activated.cols;
  if (exact) {
    product.groups.sum_rows = sorted.rows;
    product.groups.scales = sorted.weights;
    product.y = nullptr;
    product.sums = static_cast<double*>(partials.data);
    return cuda::multiply(product, processors_, compute_.get());
  }
  product.y = static_cast<float*>(
      expert_results_.reserve(static_cast<std::size_t>(entries * partials.cols) * sizeof(float), compute_.get()));
  product.y_stride = partials.cols;
  cuda::multiply(product, processors_, compute_.get());
  cuda::combine_slots(product.y, routing, sorted.places, partials, compute_.get());
}

}  // namespace tpinfer
