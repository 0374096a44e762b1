// What this GPU can do, beside which the program is measured: JSON to stdout. One GPU; about 4 GiB of its memory.
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "gpu_probe: CUDA reports \"%s\"\n", cudaGetErrorString(status));
  std::exit(1);
}
void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "gpu_probe: cuBLASLt reports %d\n", static_cast<int>(status));
  std::exit(1);
}

__global__ void read_all(const uint4* from, std::size_t count, unsigned* sum) {
  unsigned own = 0;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    const uint4 v = from[i];
    own += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (own == 0x12345678U) atomicAdd(sum, own);  // never: keeps the loads
}

__global__ void fill_random(__nv_bfloat16* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    std::uint64_t state = (i + 1) * 0x9E3779B97F4A7C15ULL;
    state ^= state >> 29;
    state *= 0xBF58476D1CE4E5B9ULL;
    to[i] = __float2bfloat16(static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 4.6566e-10F);
  }
}

// Seconds of one call, the best of three timings of `times` calls.
double seconds(int times, const std::function<void()>& call) {
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  call();
  double best = 1e30;
  for (int repeat = 0; repeat < 3; ++repeat) {
    check(cudaEventRecord(begin));
    for (int i = 0; i < times; ++i) call();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end));
    const double one = static_cast<double>(milliseconds) * 1e-3 / times;
    best = one < best ? one : best;
  }
  return best;
}

double product_rate(int n, void* memory) {
  const std::size_t elements = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  auto* a = static_cast<__nv_bfloat16*>(memory);
  auto* b = a + elements;
  auto* c = b + elements;
  fill_random<<<1024, 256>>>(a, 2 * elements);
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t layout;
  cublasLtMatmulPreference_t preference;
  check(cublasLtCreate(&handle));
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  check(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(n),
                                   n));
  check(cublasLtMatmulPreferenceCreate(&preference));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(
      cublasLtMatmulAlgoGetHeuristic(handle, operation, layout, layout, layout, layout, preference, 1, &found, &count));
  const float one = 1.0F;
  const float zero = 0.0F;
  const double time = seconds(20, [&] {
    check(cublasLtMatmul(handle, operation, &one, a, layout, b, layout, &zero, c, layout, c, layout, &found.algo,
                         nullptr, 0, nullptr));
  });
  return 2.0 * n * n * n / time;
}

}  // namespace

int main() {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  void* from = nullptr;
  void* to = nullptr;
  void* host = nullptr;
  check(cudaMalloc(&from, kBytes));
  check(cudaMalloc(&to, kBytes));
  check(cudaMallocHost(&host, kBytes / 8));
  check(cudaMemset(from, 1, kBytes));
  const double copy = seconds(5, [&] { check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice)); });
  const double read = seconds(5, [&] {
    read_all<<<static_cast<unsigned>(properties.multiProcessorCount) * 8, 512>>>(
        static_cast<const uint4*>(from), kBytes / 16, static_cast<unsigned*>(to));
  });
  const double upload = seconds(3, [&] { check(cudaMemcpyAsync(to, host, kBytes / 8, cudaMemcpyHostToDevice)); });
  const double rate = product_rate(8192, from);
  const auto bytes = static_cast<double>(kBytes);
  std::printf(
      "{\"gpu\": \"%s\", \"copy_bytes_per_s\": %.4g, \"read_bytes_per_s\": %.4g, \"upload_bytes_per_s\": %.4g, "
      "\"bf16_flop_per_s\": %.4g}\n",
      properties.name, 2.0 * bytes / copy, bytes / read, bytes / 8 / upload, rate);
  return 0;
}
