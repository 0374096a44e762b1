#include <algorithm>
#include <cstring>
#include <vector>

#include "cublasLt.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "world.hpp"

namespace cuda_emulation {

struct CublasLtContext {
  int device;
};

namespace {

constexpr std::uint64_t kMostLanes = 64;

struct Product {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  std::uint64_t lanes;
};

bool is_matrix_type(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }

std::size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

float read(const void* data, cudaDataType type, std::int64_t at) {
  if (type == CUDA_R_16F) return static_cast<const __half*>(data)[at];
  if (type == CUDA_R_16BF) return static_cast<const __nv_bfloat16*>(data)[at];
  return static_cast<const float*>(data)[at];
}

void write(void* data, cudaDataType type, std::int64_t at, float value) {
  if (type == CUDA_R_16F)
    static_cast<__half*>(data)[at] = __half(value);
  else if (type == CUDA_R_16BF)
    static_cast<__nv_bfloat16*>(data)[at] = __nv_bfloat16(value);
  else
    static_cast<float*>(data)[at] = value;
}

float to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  return __uint_as_float((bits + 0xFFFU + ((bits >> 13) & 1U)) & ~0x1FFFU);
}

// The matrix as [outer, k] with k adjacent.
std::vector<float> gather(const void* data, const cublasLtMatrixLayoutOpaque_t& layout, bool k_is_row,
                          std::int64_t batch, bool tf32) {
  const auto rows = static_cast<std::int64_t>(layout.rows);
  const auto cols = static_cast<std::int64_t>(layout.cols);
  std::vector<float> result(layout.rows * layout.cols);
  for (std::int64_t col = 0; col < cols; ++col)
    for (std::int64_t row = 0; row < rows; ++row) {
      const float value = read(data, layout.type, batch * layout.batch_stride + col * layout.pitch + row);
      result[static_cast<std::size_t>(k_is_row ? col * rows + row : row * cols + col)] = tf32 ? to_tf32(value) : value;
    }
  return result;
}

// Which of the products go to one sum depends on the algorithm, as on a GPU.
[[gnu::target_clones("avx2", "default")]] float dot(const float* a, const float* b, std::uint64_t count,
                                                    std::uint64_t lanes) {
  float sums[kMostLanes] = {};
  std::uint64_t k = 0;
  if (lanes == 16)
    for (; k + 16 <= count; k += 16)
      for (std::uint64_t i = 0; i < 16; ++i) sums[i] += a[k + i] * b[k + i];
  else
    for (; k + lanes <= count; k += lanes)
      for (std::uint64_t i = 0; i < lanes; ++i) sums[i] += a[k + i] * b[k + i];
  for (; k < count; ++k) sums[k % lanes] += a[k] * b[k];
  float total = 0;
  for (std::uint64_t i = 0; i < lanes; ++i) total += sums[i];
  return total;
}

void run(const Product& p) {
  const bool a_k_rows = p.desc.transpose_a == CUBLAS_OP_T;
  const bool b_k_rows = p.desc.transpose_b == CUBLAS_OP_N;
  const std::uint64_t count = a_k_rows ? p.a.rows : p.a.cols;
  const bool tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type == CUDA_R_32F;
  for (std::int64_t batch = 0; batch < p.d.batches; ++batch) {
    const std::vector<float> a = gather(p.a_data, p.a, a_k_rows, batch, tf32);
    const std::vector<float> b = gather(p.b_data, p.b, b_k_rows, batch, tf32);
    for (std::uint64_t col = 0; col < p.d.cols; ++col)
      for (std::uint64_t row = 0; row < p.d.rows; ++row) {
        float value = p.alpha * dot(&a[row * count], &b[col * count], count, p.lanes);
        const auto place = static_cast<std::int64_t>(col) * p.d.pitch + static_cast<std::int64_t>(row);
        if (p.beta != 0)
          value += p.beta * read(p.c_data, p.c.type,
                                 batch * p.c.batch_stride + static_cast<std::int64_t>(col) * p.c.pitch +
                                     static_cast<std::int64_t>(row));
        if (p.desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
          value += read(p.desc.bias, p.desc.bias_type, static_cast<std::int64_t>(row));
        write(p.d_data, p.d.type, batch * p.d.batch_stride + place, value);
      }
  }
}

bool shapes_fit(const cublasLtMatmulDescOpaque_t& desc, const cublasLtMatrixLayoutOpaque_t& a,
                const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  const bool ta = desc.transpose_a == CUBLAS_OP_T;
  const bool tb = desc.transpose_b == CUBLAS_OP_T;
  return (ta ? a.cols : a.rows) == d.rows && (tb ? b.rows : b.cols) == d.cols &&
         (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && a.batches == d.batches && b.batches == d.batches;
}

bool types_fit(const cublasLtMatmulDescOpaque_t& desc, cudaDataType a, cudaDataType b, cudaDataType d) {
  return is_matrix_type(a) && a == b && (d == a || d == CUDA_R_32F) && desc.scale == CUDA_R_32F;
}

// Tensor cores want rows of 16-bit elements that start at multiples of 16 bytes, or slower algorithms.
bool readable(const void* data, const cublasLtMatrixLayoutOpaque_t& layout) {
  World& w = world();
  Device* device = w.device_of(data);
  const Allocation* allocation = device ? device->memory->find(data) : nullptr;
  if (!allocation || layout.rows == 0 || layout.cols == 0) return allocation != nullptr;
  const auto elements = (layout.batches - 1) * layout.batch_stride +
                        static_cast<std::int64_t>(layout.cols - 1) * layout.pitch +
                        static_cast<std::int64_t>(layout.rows);
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(layout.type)) <=
         allocation->data + allocation->bytes;
}

template <class T>
cublasStatus_t set(T& field, const void* value, std::size_t bytes) {
  if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t injected(const char* name) {
  std::unique_lock lock(world().lock);
  if (world().sticky != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const char* fault = world().faults.visit(name);
  if (!fault) return CUBLAS_STATUS_SUCCESS;
  const std::string error = fault;
  return error == "CUBLAS_STATUS_ALLOC_FAILED"       ? CUBLAS_STATUS_ALLOC_FAILED
         : error == "CUBLAS_STATUS_NOT_SUPPORTED"    ? CUBLAS_STATUS_NOT_SUPPORTED
         : error == "CUBLAS_STATUS_NOT_INITIALIZED"  ? CUBLAS_STATUS_NOT_INITIALIZED
         : error == "CUBLAS_STATUS_EXECUTION_FAILED" ? CUBLAS_STATUS_EXECUTION_FAILED
                                                     : CUBLAS_STATUS_INTERNAL_ERROR;
}

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "the requested functionality is not supported"
                                               : cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const cublasStatus_t fault = injected("cublasLtCreate"); fault != CUBLAS_STATUS_SUCCESS) return fault;
  *handle = new CublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType scale) {
  *desc = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr, CUDA_R_32F};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType scale) {
  *desc = new cublasLtMatmulDescOpaque_t;
  return cublasLtMatmulDescInit(*desc, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t key,
                                              const void* value, std::size_t bytes) {
  switch (key) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(desc->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, std::uint64_t rows,
                                        std::uint64_t cols, std::int64_t pitch) {
  *layout = {type, rows, cols, pitch, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t pitch) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  return cublasLtMatrixLayoutInit(*layout, type, rows, cols, pitch);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t key,
                                                const void* value, std::size_t bytes) {
  switch (key) {
    case CUBLASLT_MATRIX_LAYOUT_LD: return set(layout->pitch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(layout->batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  *preference = {0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return cublasLtMatmulPreferenceInit(*preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t key, const void* value,
                                                    std::size_t bytes) {
  switch (key) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return set(preference->search, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(preference->alignment[3], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (const cublasStatus_t fault = injected("cublasLtMatmulAlgoGetHeuristic"); fault != CUBLAS_STATUS_SUCCESS)
    return fault;
  if (!shapes_fit(*desc, *a, *b, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_fit(*desc, a->type, b->type, d->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  // What is best for few columns is another algorithm, with another order of sums, than for many.
  const std::uint64_t best = d->cols <= 8 ? 32 : d->cols <= 64 ? 8 : 16;
  for (const std::uint64_t lanes : {best, std::uint64_t{4}, std::uint64_t{64}}) {
    if (*found == wanted) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.algo.data[0] = lanes;
    result.algo.data[1] = *std::max_element(preference->alignment, preference->alignment + 4);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void*,
                              std::size_t, cudaStream_t stream) {
  if (const cublasStatus_t fault = injected("cublasLtMatmul"); fault != CUBLAS_STATUS_SUCCESS) return fault;
  std::unique_lock lock(world().lock);
  if (!shapes_fit(*desc, *a_layout, *b_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!types_fit(*desc, a_layout->type, b_layout->type, d_layout->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!readable(a, *a_layout) || !readable(b, *b_layout) || !readable(d, *d_layout))
    die("cublasLtMatmul: an operand does not lie in one allocation of device memory");
  const std::uint64_t lanes = algorithm ? algorithm->data[0] : d_layout->cols <= 8 ? 32 : 16;
  if (lanes == 0 || lanes > kMostLanes) return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* data : {a, b, static_cast<const void*>(d)})
    if (algorithm && algorithm->data[1] > 0 &&
        reinterpret_cast<std::uintptr_t>(data) % std::min<std::uint64_t>(algorithm->data[1], 16) != 0)
      die("cublasLtMatmul: an operand is not aligned as the algorithm was chosen for");
  const Product product{*desc,
                        *a_layout,
                        *b_layout,
                        *c_layout,
                        *d_layout,
                        a,
                        b,
                        c,
                        d,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        lanes};
  const cudaError_t status = enqueue(stream, "product", {.run = [product] {
                                       run(product);
                                       return Progress::moved;
                                     }});
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
