#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>

#include "backend/cuda/attention.hpp"
#include "backend/cuda/gpu_names.hpp"
#include "backend/cuda/gpu_scratch.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kStagingSegments = 8;
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;
constexpr const char* kUseCpu = "use parallel.device: cpu";

/// Makes GPU number `device` the calling thread's.
int select_device(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw Error(ExitCode::usage,
                fmt::format("CUDA device {} cannot be used: CUDA reports \"{}\"", device, cudaGetErrorString(status)),
                kUseCpu);
  }
  if (device < 0 || device >= count)
    throw Error(ExitCode::usage, fmt::format("there is no CUDA device {}: this process sees {}", device, count),
                "see CUDA_VISIBLE_DEVICES, or use parallel.device: cpu");
  check(cudaSetDevice(device), fmt::format("starting CUDA device {}", device));
  return device;
}

int attribute(cudaDeviceAttr key, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, key, device), "asking for the properties of the device");
  return value;
}

const CudaMatrix& own(const PackedMatrix& matrix) { return dynamic_cast<const CudaMatrix&>(matrix); }

/// [layer][block][KV head][K, V], see cuda/kv_layout.cuh.
class CudaKvStore final : public KvStore {
 public:
  CudaKvStore(const KvSpec& spec, cudaStream_t stream)
      : KvStore(spec), data_(allocate_cuda(static_cast<std::size_t>(spec.blocks) * spec.bytes_per_block(), stream)) {}
  std::byte* layer(std::int64_t index) const noexcept {
    const KvSpec& s = spec();
    if (s.layers == 0) return nullptr;
    return static_cast<std::byte*>(data_.get()) +
           static_cast<std::size_t>(index * s.blocks) * (s.bytes_per_block() / static_cast<std::size_t>(s.layers));
  }

 private:
  CudaMemory data_;
};

void check_shape(bool right, const char* operation, const Tensor& x, const Tensor& out) {
  if (!right)
    throw Error(ExitCode::internal,
                fmt::format("{} got [{}, {}] in {} and a result of [{}, {}] in {}", operation, x.rows, x.cols,
                            dtype_name(x.dtype), out.rows, out.cols, dtype_name(out.dtype)));
}

}  // namespace

void* CudaScratch::reserve(std::size_t bytes, cudaStream_t stream) {
  if (bytes > bytes_) {
    memory_.reset();
    bytes_ = 0;
    memory_ = allocate_cuda(bytes, stream);
    bytes_ = bytes;
    ++moves_;
  }
  return memory_.get();
}

void CudaScratch::release() noexcept {
  if (bytes_ == 0) return;
  memory_.reset();  // waits for what uses it
  bytes_ = 0;
  ++moves_;
}

CudaBackend::CudaBackend(const GpuOptions& options)
    : device_(select_device(options.device)),
      processors_(attribute(cudaDevAttrMultiProcessorCount, device_)),
      graphs_wanted_(options.graphs),
      team_(options.threads),
      compute_(make_stream()),
      copy_(make_stream()),
      order_(make_event(EventKind::order)),
      ring_(kStagingSegments, kStagingBytes),
      pool_(compute_.get(), ring_),
      chosen_(make_event(EventKind::order)) {
  if (options.any_order) cublas_.emplace(compute_.get());
}

CudaBackend::~CudaBackend() {
  // Pinned memory must not go while copies from it run; a failure here was reported before or does not matter any more.
  static_cast<void>(cudaStreamSynchronize(copy_.get()));
  static_cast<void>(cudaStreamSynchronize(compute_.get()));
}

DeviceInfo CudaBackend::info() const {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device_), "asking for the properties of the device");
  return {.kind = "cuda",
          .name = properties.name,
          .uuid = gpu_uuid_text(properties.uuid.bytes),
          .numa_node = attribute(cudaDevAttrHostNumaId, device_),
          .kernel_set = fmt::format("sm_{}{}", properties.major, properties.minor)};
}

GpuMemory CudaBackend::memory() const {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  return {.total = total_bytes, .free = free_bytes};
}

std::size_t CudaBackend::scratch_bytes() const noexcept {
  std::size_t total = row_choices_.bytes() + known_ids_.bytes();
  for (const CudaScratch* scratch : scratches()) total += scratch->bytes();
  return total;
}

void* CudaBackend::allocate(std::size_t bytes) { return allocate_cuda(bytes, compute_.get()).release(); }

void CudaBackend::release(void* data, std::size_t) noexcept { static_cast<void>(CudaMemory(data)); }

void CudaBackend::copy_to_device(void* to, const void* from, std::size_t bytes) {
  settle();
  require_no_graph("a copy to the device");
  ring_.copy(to, from, bytes, compute_.get());
}

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  settle();
  // Into pageable memory the driver waits for the copy itself.
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute_.get()), "copying to the host");
}

void CudaBackend::synchronize() {
  settle();
  check(cudaStreamSynchronize(compute_.get()), "waiting for the device");
}

std::unique_ptr<PackedMatrix> CudaBackend::create_matrix(const MatrixSpec& spec) {
  return std::make_unique<CudaMatrix>(spec, pool_);
}

void CudaBackend::wait_for(cudaStream_t later, cudaStream_t earlier) {
  check(cudaEventRecord(order_.get(), earlier), "ordering two streams");
  check(cudaStreamWaitEvent(later, order_.get(), 0), "ordering two streams");
}

std::unique_ptr<KvStore> CudaBackend::create_kv_store(const KvSpec& spec) {
  stored_.release();  // weights have been loaded
  return std::make_unique<CudaKvStore>(spec, compute_.get());
}

void CudaBackend::settle() {
  if (!addition_) return;
  const Addition add = *addition_;
  addition_.reset();
  cuda::add(add.residual, add.addend, compute_.get());
}

void CudaBackend::embed(const PackedMatrix& table, std::int64_t first_id, const StepBatch& batch,
                        const Tensor& partials) {
  settle();
  cuda::embed(own(table).view(), table.spec().dtype, first_id, batch, partials, compute_.get());
}

void CudaBackend::norm(const Tensor& x, const NormParams& params, const Tensor& out) {
  check_shape(x.dtype == DType::float32 && is_weight_type(out.dtype) && x.rows == out.rows && x.cols == out.cols,
              "norm", x, out);
  if (addition_ && (addition_->residual.data != x.data || addition_->residual.rows != x.rows)) settle();
  const cuda::Addend add = addition_ ? addition_->addend : cuda::Addend{};
  addition_.reset();
  if (x.cols > 0) cuda::norm(x, add, params, out, compute_.get());
}

void CudaBackend::multiply(const PackedMatrix& w, const Tensor& x, const float* bias, float* y, double* sums) {
  const MatrixSpec& spec = w.spec();
  if (x.dtype != spec.dtype || x.cols != spec.cols || spec.lookup_only)
    throw Error(ExitCode::internal, fmt::format("a product of {} [{}, {}] with {} weights [{}, {}]{} does not exist",
                                                dtype_name(x.dtype), x.rows, x.cols, dtype_name(spec.dtype), spec.rows,
                                                spec.cols, spec.lookup_only ? " of a lookup table" : ""));
  if (x.rows == 0 || spec.rows == 0) return;
  if (sums)
    check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(x.rows * spec.rows) * sizeof(double), compute_.get()),
          "a product");
  else if (x.cols == 0)
    check(cudaMemsetAsync(y, 0, static_cast<std::size_t>(x.rows * spec.rows) * sizeof(float), compute_.get()),
          "a product");
  if (x.cols == 0) {
    if (bias) cuda::add({y, DType::float32, x.rows, spec.rows}, {.bias = bias}, compute_.get());
    return;
  }
  if (cublas_ && y && CublasLtProducts::takes(spec.dtype, spec.cols)) {
    cublas_->run(own(w).data(), spec.rows, x, y);
    if (bias) cuda::add({y, DType::float32, x.rows, spec.rows}, {.bias = bias}, compute_.get());
    return;
  }
  cuda::multiply({.dtype = spec.dtype,
                  .weights = own(w).view(),
                  .groups = {},
                  .x = x.data,
                  .x_stride = x.cols,
                  .rows = x.rows,
                  .bias = bias,
                  .y = y,
                  .y_stride = spec.rows,
                  .sums = sums},
                 processors_, compute_.get());
}

void CudaBackend::matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) {
  settle();
  check_shape(y.dtype == DType::float32 && y.rows == x.rows && y.cols == w.spec().rows, "a product", x, y);
  multiply(w, x, bias, y.floats(), nullptr);
}

void CudaBackend::matmul_partial(const PackedMatrix& w, const Tensor& x, const Tensor& partials) {
  settle();
  check_shape(partials.rows == x.rows && partials.cols == w.spec().rows, "a row-parallel product", x, partials);
  if (partials.dtype == DType::float64)
    multiply(w, x, nullptr, nullptr, static_cast<double*>(partials.data));
  else
    multiply(w, x, nullptr, partials.floats(), nullptr);
}

void CudaBackend::rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope,
                                   const StepBatch& batch, KvStore& kv, std::int64_t layer, const Tensor& q) {
  settle();
  const KvSpec& spec = kv.spec();
  if (spec.kv_heads != heads.kv_heads || spec.head_dim != heads.head_dim || qkv.cols != heads.qkv_cols() ||
      q.dtype != spec.dtype || layer < 0 || layer >= spec.layers)
    throw Error(
        ExitCode::internal,
        fmt::format("layer {} with {} KV heads of {} channels and {} columns does not fit a {} cache of {} layers with "
                    "{} heads of {}",
                    layer, heads.kv_heads, heads.head_dim, qkv.cols, dtype_name(spec.dtype), spec.layers, spec.kv_heads,
                    spec.head_dim));
  cuda::rotate_and_store(qkv, heads, rope, batch, spec, dynamic_cast<CudaKvStore&>(kv).layer(layer), q, compute_.get());
}

void CudaBackend::attention(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params,
                            const StepBatch& batch, const KvStore& kv, std::int64_t layer, const Tensor& out) {
  settle();
  check_shape(q.dtype == kv.spec().dtype && out.dtype == q.dtype && q.rows == out.rows && q.cols == out.cols,
              "attention", q, out);
  cuda::AttentionCall call{.q = q,
                           .out = out,
                           .heads = heads,
                           .params = params,
                           .batch = batch,
                           .spec = kv.spec(),
                           .layer = dynamic_cast<const CudaKvStore&>(kv).layer(layer),
                           .processors = processors_};
  const std::int64_t wanted = cuda::wanted_partials(call);
  if (wanted > 0 && wanted <= kMostAttentionPartials)
    call.partials = static_cast<float*>(
        attention_partials_.reserve(static_cast<std::size_t>(wanted) * sizeof(float), compute_.get()));
  cuda::attention(call, compute_.get());
}

void CudaBackend::activate(const Tensor& x, Activation act, bool gated, const Tensor& out) {
  settle();
  check_shape(x.dtype == DType::float32 && is_weight_type(out.dtype) && x.rows == out.rows &&
                  x.cols == (gated ? 2 * out.cols : out.cols),
              "an activation", x, out);
  cuda::activate(x, out.cols, act, gated, out, {}, compute_.get());
}

void CudaBackend::add_residual(const Tensor& residual, const float* total, const float* bias, float scale) {
  settle();
  addition_ = Addition{residual, {.total = total, .bias = bias, .scale = scale}};
}

void CudaBackend::add_rows(const PackedMatrix& table, std::int64_t first_row, const std::int32_t* index,
                           const Tensor& residual) {
  settle();
  cuda::add_rows(own(table).view(), table.spec().dtype, first_row, index, residual, compute_.get());
}

void CudaBackend::adjust(const Tensor& x, const AdjustParams& params) {
  settle();
  check_shape(x.dtype == DType::float32, "adjust", x, x);
  cuda::adjust(x, params, compute_.get());
}

void CudaBackend::head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                               const Tensor& partials) {
  settle();
  check_shape(qkv.dtype == DType::float32 && qkv.cols == heads.qkv_cols() && partials.cols == 2, "head_squares", qkv,
              partials);
  cuda::head_squares(qkv, heads, first_k, partials, compute_.get());
}

void CudaBackend::norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params) {
  settle();
  check_shape(qkv.dtype == DType::float32 && qkv.cols == heads.qkv_cols(), "norm_heads", qkv, qkv);
  cuda::norm_heads(qkv, heads, params, compute_.get());
}

void CudaBackend::copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) {
  settle();
  if (pairs.size() < 2) return;
  void* device = block_pairs_.reserve(pairs.size_bytes(), compute_.get());
  ring_.copy(device, pairs.data(), pairs.size_bytes(), compute_.get());
  cuda::copy_blocks(dynamic_cast<CudaKvStore&>(kv).layer(0), kv.spec(), static_cast<const std::int32_t*>(device),
                    static_cast<std::int64_t>(pairs.size() / 2), compute_.get());
}

void CudaBackend::gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) {
  settle();
  check_shape(x.dtype == DType::float32 && out.dtype == DType::float32 && x.cols == out.cols, "gather_rows", x, out);
  cuda::gather_rows(x, index, out, compute_.get());
}

}  // namespace tpinfer
