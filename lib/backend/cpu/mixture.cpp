#include "backend/cpu/mixture.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

/// What a panel of the weights costs, measured: few rows wait for its weights, many for their products.
std::int64_t panel_cost(std::int64_t rows) { return std::max<std::int64_t>({20, 15 + rows, 2 * rows}); }

/// Panels of gate that are done before the same ones of up, and the activation of both: their outputs stay near.
constexpr std::int64_t kGroup = 8;
constexpr std::int64_t kNearStride = 2 * kGroup * kPanelRows + 16;  // rows a power of two apart would share cache lines

const CpuMatrix& as_cpu(const PackedMatrix* matrix) { return dynamic_cast<const CpuMatrix&>(*matrix); }

std::byte* row_at(const Tensor& t, std::int64_t row) {
  return static_cast<std::byte*>(t.data) + row * t.cols * static_cast<std::int64_t>(dtype_size(t.dtype));
}

}  // namespace

const std::uint64_t CpuMixture::kNearBytes = Product::kMostRowBlock * kNearStride * sizeof(float);

void CpuMixture::find_active(const MixtureWork& work) {
  groups_.group(work.routing, work.x->rows, std::ssize(work.experts));
  active_.clear();
  for (std::size_t e = 0; e < work.experts.size(); ++e) {
    const std::int64_t first = groups_.begin[e];
    const std::int64_t rows = groups_.begin[e + 1] - first;
    if (rows == 0) continue;
    Active& a = active_.emplace_back();
    a.gate_up = &as_cpu(work.experts[e].gate_up);
    a.down = &as_cpu(work.experts[e].down);
    a.first = first;
    a.rows = rows;
    const ExpertScratch& scratch = *work.scratch;
    const std::int64_t channels = a.down->spec().cols;
    a.up = {scratch.up.floats() + first * scratch.up.cols, DType::float32, rows, a.gate_up->spec().rows};
    a.activated = {row_at(scratch.activated, first), scratch.activated.dtype, rows, channels};
    if (a.up.cols != (work.gated ? 2 : 1) * channels || a.up.cols > scratch.up.cols ||
        channels > scratch.activated.cols || a.down->spec().rows != work.partials->cols)
      throw Error(ExitCode::internal, fmt::format("expert {}: gate and up [{}, {}], down [{}, {}]", e, a.up.cols,
                                                  a.gate_up->spec().cols, a.down->spec().rows, channels));
  }
}

void CpuMixture::divide_up(bool fused) {
  segments_.clear();
  cost_ = 0;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Product& product = products_[i];
    const std::int64_t panels =
        fused ? (active_[i].activated.cols + kPanelRows - 1) / kPanelRows : active_[i].gate_up->panels();
    for (std::int64_t row = 0; row < active_[i].rows; row += product.row_block()) {
      const std::int64_t rows = std::min(product.row_block(), active_[i].rows - row);
      segments_.push_back({i, row, rows, panels, panel_cost(rows)});
      cost_ += panels * segments_.back().cost;
    }
  }
}

void CpuMixture::run_segment(const MixtureWork& work, const Segment& segment, std::int64_t begin, std::int64_t end,
                             bool fused, ProductScratch& scratch) const {
  const Active& active = active_[segment.active];
  const Product& product = products_[segment.active];
  if (!fused) return product.run_block(segment.row, segment.rows, begin, end, scratch);
  std::vector<float>& near = scratch.near;
  near.resize(std::max(near.size(), static_cast<std::size_t>(segment.rows * kNearStride)));
  const ProductWindow gate{near.data(), kNearStride};
  const ProductWindow up{near.data() + kGroup * kPanelRows, kNearStride};
  for (; begin < end; begin += kGroup) {
    const std::int64_t stop = std::min(end, begin + kGroup);
    product.run_block(segment.row, segment.rows, begin, stop, scratch, &gate);
    if (work.gated)
      product.run_block(segment.row, segment.rows, segment.panels + begin, segment.panels + stop, scratch, &up);
    const std::int64_t first = begin * kPanelRows;
    const std::int64_t channels = std::min(stop * kPanelRows, active.activated.cols) - first;
    const auto skip = first * static_cast<std::int64_t>(dtype_size(active.activated.dtype));
    for (std::int64_t r = 0; r < segment.rows; ++r)
      kernels_.activate({gate.sums + r * kNearStride, work.gated ? up.sums + r * kNearStride : nullptr,
                         row_at(active.activated, segment.row + r) + skip, active.activated.dtype, work.act},
                        0, channels);
  }
}

void CpuMixture::activate_all(const MixtureWork& work) const {
  parallel_.run(std::ssize(groups_.rows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (const Active& a : active_)
      for (std::int64_t i = std::max(begin, a.first); i < std::min(end, a.first + a.rows); ++i) {
        const float* gate = a.up.floats() + (i - a.first) * a.up.cols;
        kernels_.activate({gate, work.gated ? gate + a.activated.cols : nullptr, row_at(a.activated, i - a.first),
                           a.activated.dtype, work.act},
                          0, a.activated.cols);
      }
  });
}

// Threads get equal shares of the cost, each of adjacent panels.
void CpuMixture::run_up_share(const MixtureWork& work, bool fused, std::int64_t thread) const {
  const std::int64_t threads = std::ssize(scratch_);
  ProductScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
  scratch.begin();
  const std::int64_t from = cost_ * thread / threads;
  const std::int64_t to = cost_ * (thread + 1) / threads;
  std::int64_t at = 0;  // cost before the segment
  for (const Segment& segment : segments_) {
    // the panel that a border falls into belongs to the share before it
    const std::int64_t unit = segment.cost * products_[segment.active].panel_group();
    const auto panel_at = [&](std::int64_t border) {
      const std::int64_t units = std::max<std::int64_t>(0, border - at + unit - 1) / unit;
      return std::min(segment.panels, units * products_[segment.active].panel_group());
    };
    if (panel_at(from) < panel_at(to)) run_segment(work, segment, panel_at(from), panel_at(to), fused, scratch);
    at += segment.panels * segment.cost;
  }
}

void CpuMixture::run_up(const MixtureWork& work, bool fused) {
  divide_up(fused);
  parallel_.run(std::ssize(scratch_), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t thread = first; thread < last; ++thread) run_up_share(work, fused, thread);
  });
}

// A thread adds all experts to its own columns of the sums, so that no two add to the same place.
void CpuMixture::run_down(const MixtureWork& work) {
  const Tensor& partials = *work.partials;
  PartialSums out;
  if (partials.dtype == DType::float64)
    out.totals = static_cast<double*>(partials.data);
  else
    out.sums = partials.floats();
  products_.clear();
  for (const Active& a : active_) {
    PartialSums mine = out;
    mine.scales = groups_.weights.data() + a.first;
    mine.rows = groups_.rows.data() + a.first;
    mine.accumulate = true;
    products_.emplace_back(set_, *a.down, ProductInputs{&a.activated, nullptr, a.rows}, nullptr, mine,
                           parallel_.threads());
  }
  const std::int64_t panels = (partials.cols + kPanelRows - 1) / kPanelRows;
  const std::int64_t threads = std::min<std::int64_t>(std::ssize(scratch_), panels);
  const auto do_share = [&](std::int64_t thread) {
    const std::int64_t begin = panels * thread / threads;
    const std::int64_t end = panels * (thread + 1) / threads;
    clear_rows(out, partials.rows, partials.cols, begin * kPanelRows, std::min(end * kPanelRows, partials.cols));
    ProductScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
    scratch.begin();
    for (const Product& product : products_)
      for (std::int64_t row = 0; row < product.rows(); row += product.row_block())
        product.run_block(row, std::min(product.row_block(), product.rows() - row), begin, end, scratch);
  };
  parallel_.run(threads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t thread = first; thread < last; ++thread) do_share(thread);
  });
}

void CpuMixture::run(const MixtureWork& work) {
  if (work.partials->rows != work.x->rows ||
      (work.partials->dtype != DType::float64 && work.partials->dtype != DType::float32))
    throw Error(ExitCode::internal,
                fmt::format("experts of {} rows into partial sums [{}, {}] in {}", work.x->rows, work.partials->rows,
                            work.partials->cols, dtype_name(work.partials->dtype)));
  if (work.x->rows == 0) return;
  find_active(work);
  products_.clear();
  for (const Active& a : active_)
    products_.emplace_back(set_, *a.gate_up, ProductInputs{work.x, groups_.rows.data() + a.first, a.rows}, nullptr,
                           PartialSums{.sums = a.up.floats()}, parallel_.threads());
  // up begins in the middle of a panel where the channels do not fill whole ones: the activation then waits for all
  const bool fused =
      !work.gated || std::ranges::all_of(active_, [](const Active& a) { return a.activated.cols % kPanelRows == 0; });
  run_up(work, fused);
  if (!fused) activate_all(work);
  run_down(work);
}

}  // namespace tpinfer
