#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>

#include "backend/cuda/cuda_kernels.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kStagingSegments = 16;
constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
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

[[noreturn]] void fail_missing(std::string_view what) {
  throw Error(ExitCode::usage, fmt::format("the CUDA backend of this build cannot {} yet", what), kUseCpu);
}

const CudaMatrix& own(const PackedMatrix& matrix) { return dynamic_cast<const CudaMatrix&>(matrix); }

/// "GPU-5e3c...": as nvidia-smi spells it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

class CudaKvStore final : public KvStore {
 public:
  CudaKvStore(const KvSpec& spec, cudaStream_t stream)
      : KvStore(spec), data_(allocate_cuda(static_cast<std::size_t>(spec.blocks) * spec.bytes_per_block(), stream)) {}

 private:
  CudaMemory data_;
};

}  // namespace

CudaBackend::CudaBackend(int device)
    : device_(select_device(device)),
      compute_(make_stream()),
      copy_(make_stream()),
      order_(make_event(EventKind::order)),
      ring_(kStagingSegments, kStagingBytes),
      cublas_(make_cublas_lt()) {}

CudaBackend::~CudaBackend() {
  // Pinned memory must not go while copies from it run; a failure here was reported before or does not matter any more.
  static_cast<void>(cudaStreamSynchronize(copy_.get()));
  static_cast<void>(cudaStreamSynchronize(compute_.get()));
}

DeviceInfo CudaBackend::info() const {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device_), "asking for the properties of the device");
  int numa_node = -1;
  check(cudaDeviceGetAttribute(&numa_node, cudaDevAttrHostNumaId, device_), "asking for the NUMA node of the device");
  return {.kind = "cuda",
          .name = properties.name,
          .uuid = uuid_text(properties.uuid),
          .numa_node = numa_node,
          .kernel_set = fmt::format("sm_{}{}", properties.major, properties.minor)};
}

void* CudaBackend::allocate(std::size_t bytes) { return allocate_cuda(bytes, compute_.get()).release(); }

void CudaBackend::release(void* data, std::size_t) noexcept { static_cast<void>(CudaMemory(data)); }

void CudaBackend::copy_to_device(void* to, const void* from, std::size_t bytes) {
  ring_.copy(to, from, bytes, compute_.get());
}

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  // Into pageable memory the driver waits for the copy itself.
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, compute_.get()), "copying to the host");
}

void CudaBackend::synchronize() { check(cudaStreamSynchronize(compute_.get()), "waiting for the device"); }

std::unique_ptr<PackedMatrix> CudaBackend::create_matrix(const MatrixSpec& spec) {
  return std::make_unique<CudaMatrix>(spec, cublas_.get(), compute_.get());
}

void CudaBackend::wait_for(cudaStream_t later, cudaStream_t earlier) {
  check(cudaEventRecord(order_.get(), earlier), "ordering two streams");
  check(cudaStreamWaitEvent(later, order_.get(), 0), "ordering two streams");
}

void CudaBackend::load_matrix(PackedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                              const StoredMatrix& from) {
  const MatrixSpec& spec = matrix.spec();
  if (first_row < 0 || first_col < 0 || first_row + from.rows > spec.rows || first_col + from.cols > spec.cols)
    throw Error(ExitCode::internal, fmt::format("a block of [{}, {}] at ({}, {}) does not lie in a matrix of [{}, {}]",
                                                from.rows, from.cols, first_row, first_col, spec.rows, spec.cols));
  if (from.rows == 0 || from.cols == 0) return;
  const auto size = static_cast<std::int64_t>(dtype_size(spec.dtype));
  const std::int64_t capacity = static_cast<std::int64_t>(ring_.segment_bytes()) / size;
  const std::int64_t tile_cols = std::min(from.cols, capacity);
  const std::int64_t tile_rows = capacity / tile_cols;
  wait_for(copy_.get(), compute_.get());  // the matrix is zeroed there
  for (std::int64_t row = 0; row < from.rows; row += tile_rows)
    for (std::int64_t col = 0; col < from.cols; col += tile_cols) {
      const std::int64_t rows = std::min(tile_rows, from.rows - row);
      const std::int64_t cols = std::min(tile_cols, from.cols - col);
      const auto width = static_cast<std::size_t>(cols * size);
      std::byte* segment = ring_.acquire();
      for (std::int64_t r = 0; r < rows; ++r)
        convert_row(from, row + r, col, cols, spec.dtype, segment + r * cols * size);
      std::byte* to = own(matrix).data() + ((first_row + row) * spec.cols + first_col + col) * size;
      check(cudaMemcpy2DAsync(to, static_cast<std::size_t>(spec.cols * size), segment, width, width,
                              static_cast<std::size_t>(rows), cudaMemcpyHostToDevice, copy_.get()),
            "copying weights to the device");
      ring_.submit(copy_.get());
    }
  wait_for(compute_.get(), copy_.get());
}

std::unique_ptr<KvStore> CudaBackend::create_kv_store(const KvSpec& spec) {
  return std::make_unique<CudaKvStore>(spec, compute_.get());
}

void CudaBackend::embed(const PackedMatrix& table, std::int64_t first_id, const StepBatch& batch,
                        const Tensor& partials) {
  if (partials.dtype != DType::float64) fail_missing("add up in float32");
  const MatrixSpec& spec = table.spec();
  check(cuda::embed(own(table).data(), spec.dtype, spec.rows, spec.cols, first_id, batch,
                    static_cast<double*>(partials.data), compute_.get()),
        "the embedding");
}

void CudaBackend::norm(const Tensor& x, const NormParams& params, const Tensor& out) {
  check(cuda::norm(x, params, out, compute_.get()), "a norm");
}

void CudaBackend::matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) {
  const MatrixSpec& spec = w.spec();
  if (x.dtype != spec.dtype || x.cols != spec.cols || y.cols != spec.rows || y.rows != x.rows)
    throw Error(
        ExitCode::internal,
        fmt::format("a product of {} [{}, {}] with {} weights [{}, {}] into [{}, {}] does not exist",
                    dtype_name(x.dtype), x.rows, x.cols, dtype_name(spec.dtype), spec.rows, spec.cols, y.rows, y.cols));
  if (y.rows == 0 || y.cols == 0) return;
  if (x.cols == 0)
    check(cudaMemsetAsync(y.data, 0, y.bytes(), compute_.get()), "a product");
  else if (const auto& product = own(w).product())
    product->run(cublas_.get(), own(w).data(), x, y, compute_.get());
  else
    throw Error(ExitCode::internal, "matmul needs a matrix that is neither row-parallel nor for lookup only");
  if (bias) check(cuda::add(y, nullptr, bias, compute_.get()), "adding a bias");
}

void CudaBackend::matmul_partial(const PackedMatrix&, const Tensor&, const Tensor&) {
  fail_missing("compute row-parallel products");
}

void CudaBackend::rotate_and_store(const Tensor&, const AttentionHeads&, const RopeTable&, const StepBatch&, KvStore&,
                                   std::int64_t, const Tensor&) {
  fail_missing("fill the KV cache");
}

void CudaBackend::attention(const Tensor&, const AttentionHeads&, const AttentionParams&, const StepBatch&,
                            const KvStore&, std::int64_t, const Tensor&) {
  fail_missing("compute attention");
}

void CudaBackend::add_rows(const PackedMatrix&, const std::int32_t*, const Tensor&) {
  fail_missing("add learned positions");
}

void CudaBackend::copy_kv_blocks(KvStore&, std::span<const std::int32_t>) { fail_missing("copy cache blocks"); }

void CudaBackend::route(const Tensor&, const RoutingParams&, const Routing&) { fail_missing("choose experts"); }

void CudaBackend::experts(std::span<const ExpertMatrices>, const Tensor&, const Routing&, Activation, bool,
                          const ExpertScratch&, const Tensor&) {
  fail_missing("compute mixtures of experts");
}

void CudaBackend::activate(const Tensor& x, Activation act, bool gated, const Tensor& out) {
  check(cuda::activate(x, act, gated, out, compute_.get()), "an activation");
}

void CudaBackend::add_residual(const Tensor& residual, const float* total, const float* bias) {
  check(cuda::add(residual, total, bias, compute_.get()), "adding to the residual stream");
}

void CudaBackend::gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) {
  check(cuda::gather_rows(x, index, out, compute_.get()), "gathering rows");
}

}  // namespace tpinfer
