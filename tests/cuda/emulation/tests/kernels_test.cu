// The emulation proves itself: what is right on a GPU is right here, and what is wrong there shows here.
#include <numeric>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/tile_ops.cuh"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "world.hpp"

namespace tpinfer::cuda {
namespace {

using Kernels = cuda_emulation::WorldTest;
using KernelsDeathTest = cuda_emulation::WorldTest;

__global__ void name_thread(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = static_cast<int>(block * 1000 + thread);
}

TEST_F(Kernels, EveryThreadOfEveryBlockRunsOnce) {
  int* out = device<int>(2 * 3 * 2 * 24);
  launch(name_thread, {dim3(2, 3, 2), dim3(4, 3, 2)}, nullptr, out);
  const std::vector<int> got = host_copy(out, 2 * 3 * 2 * 24);
  for (int block = 0; block < 12; ++block)
    for (int thread = 0; thread < 24; ++thread)
      ASSERT_EQ(got[static_cast<std::size_t>(block * 24 + thread)], block * 1000 + thread);
}

__global__ void reverse(const int* in, int* out, bool barrier) {
  __shared__ int kept[256];
  kept[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  if (barrier) __syncthreads();
  out[blockIdx.x * 256 + threadIdx.x] = kept[255 - threadIdx.x];
}

TEST_F(Kernels, AMissingBarrierShows) {
  std::vector<int> numbers(1024);
  std::iota(numbers.begin(), numbers.end(), 1);
  int* in = device_copy(numbers);
  int* out = device<int>(1024);
  std::vector<int> expected(1024);
  for (std::size_t i = 0; i < 1024; ++i) expected[i] = numbers[i / 256 * 256 + 255 - i % 256];
  launch(reverse, {4, 256}, nullptr, in, out, true);
  EXPECT_EQ(host_copy(out, 1024), expected);
  launch(reverse, {4, 256}, nullptr, in, out, false);
  EXPECT_NE(host_copy(out, 1024), expected);
}

__global__ void sum_rows(const float* in, float* out) {
  TPINFER_SHARED_MEMORY(float, sums);
  float value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, bits);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) total += sums[i];
    out[blockIdx.x] = total;
  }
}

TEST_F(Kernels, ShufflesAndBarriersSumRows) {
  std::vector<float> numbers(3 * 1024);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  float* out = device<float>(3);
  launch(sum_rows, {3, 1024, 32 * sizeof(float)}, nullptr, device_copy(numbers), out);
  const std::vector<float> sums = host_copy(out, 3);
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_EQ(sums[row], std::accumulate(numbers.begin() + static_cast<long>(row) * 1024,
                                         numbers.begin() + static_cast<long>(row + 1) * 1024, 0.0F));
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(0xFFFFFFFFU, lane * 10, 7);
  out[32 + lane] = __shfl_down_sync(0xFFFFFFFFU, lane, 5, 16);
  out[64 + lane] = __shfl_up_sync(0xFFFFFFFFU, lane, 3);
  out[96 + lane] = static_cast<int>(__ballot_sync(0xFFFFFFFFU, lane % 3 == 0));
  out[128 + lane] = lane < 16 ? __shfl_xor_sync(0x0000FFFFU, lane, 1) : __shfl_xor_sync(0xFFFF0000U, lane, 2);
  const double wide = __shfl_sync(0xFFFFFFFFU, 0.5 + lane, lane / 8, 8);
  out[160 + lane] = static_cast<int>(wide * 2);
}

TEST_F(Kernels, ShufflesOfEachKind) {
  int* out = device<int>(192);
  launch(shuffles, {1, 32}, nullptr, out);
  const std::vector<int> got = host_copy(out, 192);
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = [&](int part) { return got[static_cast<std::size_t>(part * 32 + lane)]; };
    EXPECT_EQ(at(0), 70);
    EXPECT_EQ(at(1), lane % 16 + 5 < 16 ? lane + 5 : lane);
    EXPECT_EQ(at(2), lane >= 3 ? lane - 3 : lane);
    EXPECT_EQ(static_cast<unsigned>(at(3)), 0x49249249U);
    EXPECT_EQ(at(4), lane ^ (lane < 16 ? 1 : 2));
    EXPECT_EQ(at(5), 2 * (lane / 8 * 8 + lane / 8) + 1);
  }
}

__global__ void meet_in_vain(bool block) {
  if (block && threadIdx.x % 2 == 0) __syncwarp(0xFFFFFFFFU);
  if (block && threadIdx.x % 2 == 1) __syncthreads();
  if (!block && threadIdx.x < 31) __shfl_sync(0xFFFFFFFFU, 1, 0);
}

TEST_F(KernelsDeathTest, ThreadsThatWaitInVainAreTold) {
  const auto run = [](bool block) {
    launch(meet_in_vain, {1, 64}, nullptr, block);
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(true), "block \\(0, 0, 0\\).*wait for each other in vain");
  EXPECT_DEATH(run(false), "warp operation of lanes ffffffff");
}

__global__ void touch(const int* from, std::int64_t index, int* out) { *out = from[index]; }

TEST_F(KernelsDeathTest, BadPointersFault) {
  int* out = device<int>(1);
  int* in = device<int>(1000);
  const auto read = [&](const int* from, std::int64_t index) {
    launch(touch, {1, 1}, nullptr, from, index, out);
    cudaDeviceSynchronize();
  };
  std::vector<int> host(10);
  EXPECT_DEATH(read(host.data(), 0), "argument 0 of a kernel holds .* pointer to pageable host memory");
  EXPECT_DEATH(read(in, 1024), "kernel at .* touches device memory at .*outside of any allocation");
  EXPECT_DEATH(read(nullptr, 0), "kernel at .*which is not device memory");
  EXPECT_DEATH(std::printf("%d", in[3]), "host code touches device memory at .*allocation of 4000 bytes, 12 bytes");
  EXPECT_DEATH(
      {
        cudaFree(in);
        read(in, 0);
      },
      "outside of any allocation");
  read(in, 999);
  read(pinned<int>(10), 9);
}

template <class T>
__global__ void tile_product(const T* a, const T* b, float* c, bool wait) {
  TPINFER_SHARED_MEMORY(T, tiles);  // a [16, 16], then b [16, 8] by rows of 16 bytes
  const int lane = static_cast<int>(threadIdx.x);
  copy_async(tiles + lane * 8, a + lane * 8);
  copy_async_commit();
  copy_async(tiles + 256 + lane % 16 * 8, b + lane % 16 * 8);
  copy_async_commit();
  if (wait) copy_async_wait<0>();
  __syncthreads();
  std::uint32_t a_tiles[4];
  std::uint32_t b_tiles[4];
  load_tiles(a_tiles, tiles + lane % 16 * 16 + lane / 16 * 8);
  load_tiles_transposed(b_tiles, tiles + 256 + lane % 16 * 8);
  float sums[4] = {0.5F, 0.5F, 0.5F, 0.5F};
  const std::uint32_t b_pair[2] = {b_tiles[0], b_tiles[1]};
  mma_16x8x16<T>(sums, a_tiles, b_pair);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
  copy_async_wait<0>();
}

template <class T>
std::vector<T> small_numbers(std::size_t count, unsigned seed) {
  std::vector<T> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    numbers.push_back(T(static_cast<float>(static_cast<int>(seed >> 24) - 128) / 32.0F));
  }
  return numbers;
}

TEST_F(Kernels, TileOperationsMultiply) {
  const auto run = [&]<class T>(T) {
    const std::vector<T> a = small_numbers<T>(256, 1);
    const std::vector<T> b = small_numbers<T>(128, 2);
    float* c = device<float>(128);
    launch(tile_product<T>, {1, 32, 1024}, nullptr, device_copy(a), device_copy(b), c, true);
    const std::vector<float> got = host_copy(c, 128);
    for (std::size_t row = 0; row < 16; ++row)
      for (std::size_t col = 0; col < 8; ++col) {
        float sum = 0.5F;
        for (std::size_t k = 0; k < 16; ++k) sum += to_float(a[row * 16 + k]) * to_float(b[k * 8 + col]);
        ASSERT_EQ(got[row * 8 + col], sum) << row << ", " << col;
      }
    launch(tile_product<T>, {1, 32, 1024}, nullptr, device_copy(a), device_copy(b), c, false);
    EXPECT_NE(host_copy(c, 128), got) << "a missing wait for asynchronous copies";
  };
  run(__half());
  run(__nv_bfloat16());
}

__global__ void count_up(int* total, double* sum) {
  atomicAdd(total, 1);
  atomicAdd(sum, 0.25);
}

TEST_F(Kernels, AtomicsAndWrongShapes) {
  int* total = device_copy(std::vector<int>{0});
  double* sum = device_copy(std::vector<double>{0});
  launch(count_up, {10, 100}, nullptr, total, sum);
  EXPECT_EQ(host_copy(total, 1)[0], 1000);
  EXPECT_EQ(host_copy(sum, 1)[0], 250.0);
  EXPECT_THROW(launch(count_up, {1, 1025}, nullptr, total, sum), Error);
  EXPECT_THROW(launch(count_up, {1, 32, std::size_t{1} << 20}, nullptr, total, sum), Error);
  EXPECT_NO_THROW(launch(count_up, {0, 32}, nullptr, total, sum));
  EXPECT_EQ(host_copy(total, 1)[0], 1000);
}

TEST_F(Kernels, HalvesRoundToNearestEven) {
  for (const float value : {1.0F, 1.0009765F, 0.1F, -65504.0F, 70000.0F, 6e-8F, 1e-30F}) {
    EXPECT_EQ(__half2float(__float2half_rn(value)), float16_to_float(float_to_float16(value)));
    EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(value)), bfloat16_to_float(float_to_bfloat16(value)));
  }
}

}  // namespace
}  // namespace tpinfer::cuda
