#include "backend/cpu/cpu_backend.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "backend/cpu/head_norms.hpp"
#include "backend/cpu/matmul.hpp"
#include "backend/cpu/rotate.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

/// Elements of light work below which one thread is faster than a dispatch.
constexpr std::int64_t kWorthSharing = 1 << 14;
/// Columns of an activation that are worth a part of their own.
constexpr std::int64_t kColumnPart = 512;

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int numa_node_of_caller() noexcept {
  unsigned processor = 0;
  unsigned node = 0;
  return ::getcpu(&processor, &node) == 0 ? static_cast<int>(node) : -1;
}

const CpuMatrix& as_cpu(const PackedMatrix& matrix) { return dynamic_cast<const CpuMatrix&>(matrix); }

void check_shape(bool right, const char* operation, const Tensor& x, const Tensor& out) {
  if (!right)
    throw Error(ExitCode::internal,
                fmt::format("{} got [{}, {}] in {} and a result of [{}, {}] in {}", operation, x.rows, x.cols,
                            dtype_name(x.dtype), out.rows, out.cols, dtype_name(out.dtype)));
}

double* doubles_of(const Tensor& partials) {
  if (partials.dtype != DType::float64)
    throw Error(ExitCode::internal, fmt::format("exact sums in {}", dtype_name(partials.dtype)));
  return static_cast<double*>(partials.data);
}

bool is_activation(const Tensor& t) { return t.dtype == DType::float32 || t.dtype == DType::bfloat16; }

}  // namespace

CpuBackendImpl::CpuBackendImpl(KernelSet set, int threads)
    : set_(set),
      kernels_(kernels_of(set)),
      team_(threads),
      scratch_(static_cast<std::size_t>(threads)),
      attention_(kernels_, team_),
      mixture_(set, kernels_, team_, scratch_) {}

template <class Body>
void CpuBackendImpl::share(std::int64_t count, std::int64_t cost, const Body& body) {
  if (count * cost < kWorthSharing)
    body(0, count);
  else
    team_.run(count, 1, body);
}

DeviceInfo CpuBackendImpl::info() const {
  return {.kind = "cpu",
          .name = processor_name(),
          .uuid = {},
          .numa_node = numa_node_of_caller(),
          .kernel_set = std::string(kernel_set_name(set_))};
}

DType CpuBackendImpl::activation_dtype(DType compute) const { return cpu_activation_dtype(compute); }

void* CpuBackendImpl::allocate(std::size_t bytes) {
  HugeMemory memory(bytes == 0 ? 1 : bytes);
  void* data = memory.data();
  allocations_.emplace(data, std::move(memory));
  return data;
}

void CpuBackendImpl::release(void* data, std::size_t) noexcept { allocations_.erase(data); }

void CpuBackendImpl::copy_to_device(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void CpuBackendImpl::copy_to_host(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<PackedMatrix> CpuBackendImpl::create_matrix(const MatrixSpec& spec) {
  return std::make_unique<CpuMatrix>(spec);
}

void CpuBackendImpl::load_matrix(PackedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                                 const StoredMatrix& from) {
  dynamic_cast<CpuMatrix&>(matrix).load(first_row, first_col, from, team_);
}

std::unique_ptr<KvStore> CpuBackendImpl::create_kv_store(const KvSpec& spec) {
  return std::make_unique<CpuKvStore>(spec);
}

void CpuBackendImpl::embed(const PackedMatrix& table, std::int64_t first_id, const StepBatch& batch,
                           const Tensor& partials) {
  cpu_embed(team_, as_cpu(table), first_id, batch, partials);
}

void CpuBackendImpl::norm(const Tensor& x, const NormParams& params, const Tensor& out) {
  check_shape(x.dtype == DType::float32 && is_activation(out) && x.rows == out.rows && x.cols == out.cols, "norm", x,
              out);
  const NormWork work{x.floats(), out.data, out.dtype, x.cols, params};
  share(x.rows, x.cols, [&](std::int64_t begin, std::int64_t end) { kernels_.norm(work, begin, end); });
}

void CpuBackendImpl::matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) {
  cpu_matmul(set_, team_, as_cpu(w), x, bias, y, scratch_);
}

void CpuBackendImpl::matmul_partial(const PackedMatrix& w, const Tensor& x, const Tensor& partials) {
  if (partials.dtype == DType::float32) return cpu_matmul(set_, team_, as_cpu(w), x, nullptr, partials, scratch_);
  cpu_matmul_partial(set_, team_, as_cpu(w), x, {.totals = doubles_of(partials)}, scratch_);
}

void CpuBackendImpl::rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope,
                                      const StepBatch& batch, KvStore& kv, std::int64_t layer, const Tensor& q) {
  cpu_rotate_and_store(team_, qkv, heads, rope, batch, dynamic_cast<CpuKvStore&>(kv), layer, q);
}

void CpuBackendImpl::attention(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params,
                               const StepBatch& batch, const KvStore& kv, std::int64_t layer, const Tensor& out) {
  attention_.run(q, heads, params, batch, dynamic_cast<const CpuKvStore&>(kv), layer, out);
}

void CpuBackendImpl::activate(const Tensor& x, Activation act, bool gated, const Tensor& out) {
  const std::int64_t width = out.cols;
  check_shape(
      x.dtype == DType::float32 && is_activation(out) && x.rows == out.rows && x.cols == (gated ? 2 * width : width),
      "activate", x, out);
  const std::int64_t parts = (width + kColumnPart - 1) / kColumnPart;
  const auto row_bytes = width * static_cast<std::int64_t>(dtype_size(out.dtype));
  share(out.rows * parts, 8 * kColumnPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts;
      const std::int64_t col = i % parts * kColumnPart;
      const float* gate = x.floats() + row * x.cols;
      const ActivationWork work{gate, gated ? gate + width : nullptr,
                                static_cast<std::byte*>(out.data) + row * row_bytes, out.dtype, act};
      kernels_.activate(work, col, std::min(col + kColumnPart, width));
    }
  });
}

void CpuBackendImpl::add_residual(const Tensor& residual, const float* total, const float* bias, float scale) {
  const std::int64_t cols = residual.cols;
  share(residual.rows, cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* to = residual.floats() + row * cols;
      const float* from = total == nullptr ? nullptr : total + row * cols;
      if (from == nullptr)
        for (std::int64_t c = 0; c < cols; ++c) to[c] += bias[c] * scale;
      else if (bias == nullptr)
        for (std::int64_t c = 0; c < cols; ++c) to[c] += from[c] * scale;
      else
        for (std::int64_t c = 0; c < cols; ++c) to[c] += (from[c] + bias[c]) * scale;
    }
  });
}

void CpuBackendImpl::add_rows(const PackedMatrix& table, std::int64_t first_row, const std::int32_t* index,
                              const Tensor& residual) {
  const CpuMatrix& matrix = as_cpu(table);
  row_.resize(static_cast<std::size_t>(residual.cols));
  for (std::int64_t r = 0; r < residual.rows; ++r) {
    matrix.copy_row(first_row + index[r], row_.data());
    float* to = residual.floats() + r * residual.cols;
    for (std::int64_t c = 0; c < residual.cols; ++c) to[c] += row_[static_cast<std::size_t>(c)];
  }
}

void CpuBackendImpl::adjust(const Tensor& x, const AdjustParams& params) {
  check_shape(x.dtype == DType::float32, "adjust", x, x);
  const std::int64_t parts = (x.cols + kColumnPart - 1) / kColumnPart;
  share(x.rows * parts, 8 * kColumnPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t col = i % parts * kColumnPart;
      kernels_.adjust(x.floats() + i / parts * x.cols + col, std::min(kColumnPart, x.cols - col), params);
    }
  });
}

void CpuBackendImpl::head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                                  const Tensor& partials) {
  check_shape(qkv.dtype == DType::float32 && qkv.cols == heads.qkv_cols() && partials.cols == 2, "head_squares", qkv,
              partials);
  cpu_head_squares(kernels_, qkv, heads, first_k, partials);
}

void CpuBackendImpl::norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params) {
  check_shape(qkv.dtype == DType::float32 && qkv.cols == heads.qkv_cols(), "norm_heads", qkv, qkv);
  share(qkv.rows, 4 * qkv.cols,
        [&](std::int64_t begin, std::int64_t end) { cpu_norm_heads(kernels_, qkv, heads, params, begin, end); });
}

void CpuBackendImpl::route(const Tensor& logits, const RoutingParams& params, const Routing& routing) {
  cpu_route(team_, kernels_.exponentials, logits, params, routing);
}

void CpuBackendImpl::experts(std::span<const ExpertMatrices> experts, const Tensor& x, const Routing& routing,
                             Activation act, bool gated, const ExpertScratch& scratch, const Tensor& partials) {
  mixture_.run({experts, &x, routing, act, gated, &scratch, &partials});
}

void CpuBackendImpl::copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) {
  const auto& store = dynamic_cast<const CpuKvStore&>(kv);
  const auto bytes = static_cast<std::size_t>(store.layout().block_bytes);
  for (std::int64_t layer = 0; layer < kv.spec().layers; ++layer)
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
      std::memcpy(store.layer(layer) + pairs[i + 1] * store.layout().block_bytes,
                  store.layer(layer) + pairs[i] * store.layout().block_bytes, bytes);
}

void CpuBackendImpl::gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) {
  check_shape(x.dtype == DType::float32 && out.dtype == DType::float32 && x.cols == out.cols, "gather_rows", x, out);
  const auto bytes = static_cast<std::size_t>(x.cols) * sizeof(float);
  for (std::int64_t row = 0; row < out.rows; ++row)
    std::memcpy(out.floats() + row * x.cols, x.floats() + index[row] * x.cols, bytes);
}

std::unique_ptr<CpuBackend> make_cpu_backend(KernelSet set, int threads) {
  return std::make_unique<CpuBackendImpl>(set, threads);
}

const CpuKernels& kernels_of(KernelSet set) noexcept {
  switch (set) {
    case KernelSet::scalar: return scalar_kernels();
    case KernelSet::avx2: return avx2_kernels();
    case KernelSet::avx512:
    case KernelSet::avx512_bf16:
      // Widening to float32 beats bfloat16 dot products here: they run at half the rate of float32 products on some
      // processors, and only half of the time goes into products at all.
      return avx512_kernels();
  }
  return scalar_kernels();
}

DType cpu_activation_dtype(DType compute) noexcept {
  return compute == DType::bfloat16 ? DType::bfloat16 : DType::float32;
}

}  // namespace tpinfer
