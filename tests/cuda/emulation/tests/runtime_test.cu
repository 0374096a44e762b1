// Streams, events, graphs, memory and errors of the emulation.
#include "backend/cuda/launch.cuh"
#include "world.hpp"

namespace tpinfer::cuda {
namespace {

using Runtime = cuda_emulation::WorldTest;
using RuntimeDeathTest = cuda_emulation::WorldTest;

__global__ void put(int* to, int value) { *to = value; }
__global__ void add(const int* from, int* to) { *to += *from; }

TEST_F(Runtime, AMissingSynchronisationShows) {
  const cudaStream_t work = stream();
  int* data = device<int>(1);
  int* result = pinned<int>(1);
  *result = -1;
  launch(put, {1, 1}, work, data, 7);
  ASSERT_EQ(cudaMemcpyAsync(result, data, sizeof(int), cudaMemcpyDeviceToHost, work), cudaSuccess);
  EXPECT_EQ(*result, -1) << "the copy has run before anybody waited for it";
  EXPECT_EQ(cuda_emulation::pending_work(), 2U);
  ASSERT_EQ(cudaStreamSynchronize(work), cudaSuccess);
  EXPECT_EQ(*result, 7);
}

TEST_F(Runtime, PinnedSourcesAreReadLateAndPageableOnesAtOnce) {
  const cudaStream_t work = stream();
  int* data = device<int>(2);
  int* source = pinned<int>(1);
  int ordinary = 1;
  *source = 1;
  ASSERT_EQ(cudaMemcpyAsync(data, source, sizeof(int), cudaMemcpyHostToDevice, work), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data + 1, &ordinary, sizeof(int), cudaMemcpyHostToDevice, work), cudaSuccess);
  *source = 2;
  ordinary = 2;
  ASSERT_EQ(cudaStreamSynchronize(work), cudaSuccess);
  EXPECT_EQ(host_copy(data, 2), (std::vector<int>{2, 1}));
}

TEST_F(Runtime, EventsOrderStreamsAndTheirAbsenceShows) {
  for (const char* order : {"late", "random:1", "random:2", "random:3"}) {
    restart({{"TPINFER_EMULATION_ORDER", order}});
    const cudaStream_t first = stream();
    const cudaStream_t second = stream();
    cudaEvent_t written = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), cudaSuccess);
    int* a = device<int>(1);
    int* b = device_copy(std::vector<int>{10});
    launch(put, {1, 1}, first, a, 5);
    ASSERT_EQ(cudaEventRecord(written, first), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, written), cudaSuccess);
    launch(add, {1, 1}, second, a, b);
    ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(host_copy(b, 1)[0], 15) << order;
  }
  restart({{"TPINFER_EMULATION_ORDER", "late"}});
  int* a = device<int>(1);
  int* b = device_copy(std::vector<int>{10});
  launch(put, {1, 1}, stream(), a, 5);
  const cudaStream_t second = stream();
  launch(add, {1, 1}, second, a, b);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  int got = 0;
  ASSERT_EQ(cudaMemcpy(&got, b, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got, 9) << "without an event the second stream reads what was never written: -1";
}

TEST_F(Runtime, TheDefaultStreamWaitsForBlockingStreamsAlone) {
  int* data = device<int>(2);
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  launch(put, {1, 1}, blocking, data, 1);
  launch(put, {1, 1}, stream(), data + 1, 1);
  int got[2] = {};
  ASSERT_EQ(cudaMemcpy(got, data, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], -1);
}

TEST_F(Runtime, PollingMakesWorkGoOn) {
  const cudaStream_t work = stream();
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  int* data = device<int>(1);
  for (int i = 0; i < 5; ++i) launch(put, {1, 1}, work, data, i);
  ASSERT_EQ(cudaEventRecord(end, work), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
  int polls = 0;
  while (cudaEventQuery(end) == cudaErrorNotReady) ++polls;
  EXPECT_EQ(polls, 4);
  EXPECT_EQ(cudaStreamQuery(work), cudaSuccess);
}

TEST_F(Runtime, GraphsReplayWhatWasCaptured) {
  for (const char* order : {"late", "random:1", "random:2", "eager"}) {
    restart({{"TPINFER_EMULATION_ORDER", order}});
    const cudaStream_t work = stream();
    const cudaStream_t side = stream();
    cudaEvent_t fork = nullptr;
    cudaEvent_t join = nullptr;
    ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
    int* a = device_copy(std::vector<int>{3});
    int* b = device_copy(std::vector<int>{0});
    int* c = device_copy(std::vector<int>{0});
    ASSERT_EQ(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch(add, {1, 1}, work, a, b);
    ASSERT_EQ(cudaEventRecord(fork, work), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(side, fork), cudaSuccess);
    launch(add, {1, 1}, side, b, c);
    ASSERT_EQ(cudaEventRecord(join, side), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(work, join), cudaSuccess);
    launch(add, {1, 1}, work, c, b);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(work, &graph), cudaSuccess);
    EXPECT_EQ(host_copy(b, 1)[0], 0) << "captured work has run";
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(exec, work), cudaSuccess);
    // b = 3, c = 3, b = 6; b = 9, c = 12, b = 21
    ASSERT_EQ(cudaStreamSynchronize(work), cudaSuccess);
    EXPECT_EQ(host_copy(b, 1)[0], 21) << order;
    EXPECT_EQ(cuda_emulation::counts().kernels, 6U);
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

TEST_F(Runtime, GraphsAreUpdatedWhereTheShapeIsTheSame) {
  const cudaStream_t work = stream();
  int* data = device<int>(2);
  const auto captured = [&](int value, bool twice) {
    EXPECT_EQ(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch(put, {1, 1}, work, data, value);
    if (twice) launch(put, {1, 1}, work, data + 1, value);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(work, &graph), cudaSuccess);
    return graph;
  };
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, captured(1, false)), cudaSuccess);
  cudaGraphExecUpdateResultInfo info{};
  ASSERT_EQ(cudaGraphExecUpdate(exec, captured(2, false), &info), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, work), cudaSuccess);
  EXPECT_EQ(host_copy(data, 1)[0], 2);
  EXPECT_EQ(cudaGraphExecUpdate(exec, captured(3, true), &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
}

TEST_F(Runtime, WhatACaptureForbidsInvalidatesIt) {
  const cudaStream_t work = stream();
  int* data = device<int>(1);
  int host = 0;
  cudaGraph_t graph = nullptr;
  const auto refused = [&](cudaError_t expected, auto&& call) {
    EXPECT_EQ(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(call(), expected);
    EXPECT_EQ(cudaStreamEndCapture(work, &graph), cudaErrorStreamCaptureInvalidated);
    static_cast<void>(cudaGetLastError());
  };
  refused(cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(work); });
  refused(cudaErrorStreamCaptureUnsupported, [&] {
    void* more = nullptr;
    return cudaMalloc(&more, 100);
  });
  refused(cudaErrorStreamCaptureUnsupported,
          [&] { return cudaMemcpyAsync(data, &host, sizeof host, cudaMemcpyHostToDevice, work); });
  refused(cudaErrorStreamCaptureImplicit, [&] { return cudaMemcpy(data, &host, sizeof host, cudaMemcpyHostToDevice); });
}

TEST_F(Runtime, MemoryIsCountedAndRunsOut) {
  restart({{"TPINFER_EMULATION_GPUS", "64MiB,used=16MiB,context=8MiB;16MiB"}});
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(total, std::size_t{64} << 20);
  EXPECT_EQ(free_bytes, std::size_t{40} << 20);
  void* most = nullptr;
  EXPECT_EQ(cudaMalloc(&most, (std::size_t{40} << 20) + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&most, std::size_t{40} << 20), cudaSuccess);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaFree(most), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&most, std::size_t{17} << 20), cudaErrorMemoryAllocation);
}

TEST_F(Runtime, CopiesAreHeldToTheirBounds) {
  int* data = device<int>(10);
  int host[20] = {};
  EXPECT_EQ(cudaMemcpy(data, host, 41, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(data, host, 40, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy2D(data, 12, host, 20, 8, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2D(data, 12, host, 20, 4, 4, cudaMemcpyHostToDevice), cudaSuccess);
}

TEST_F(RuntimeDeathTest, PinnedMemoryMustOutliveItsCopies) {
  const cudaStream_t work = stream();
  int* data = device<int>(1);
  int* source = pinned<int>(1);
  ASSERT_EQ(cudaMemcpyAsync(data, source, sizeof(int), cudaMemcpyHostToDevice, work), cudaSuccess);
  EXPECT_DEATH(cudaFreeHost(source), "pinned memory is freed while a copy that uses it is under way");
  ASSERT_EQ(cudaStreamSynchronize(work), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(source), cudaSuccess);
}

TEST_F(Runtime, ErrorsAreInjectedAndThoseOfTheDeviceStay) {
  restart({{"TPINFER_EMULATION_FAIL", "cudaMalloc#2=cudaErrorMemoryAllocation; kernel#3=cudaErrorIllegalAddress"}});
  int* data = device<int>(1);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaSuccess);
  for (int i = 0; i < 4; ++i) launch(put, {1, 1}, nullptr, data, i);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cuda_emulation::counts().kernels, 2U);
  EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
}

TEST_F(Runtime, VisibleDevicesAreReadAsCudaReadsThem) {
  const auto buses = [&](const char* visible, const char* cgroup) {
    restart({{"TPINFER_EMULATION_GPUS", "16MiB*5"},
             {"CUDA_VISIBLE_DEVICES", visible},
             {"TPINFER_EMULATION_DEVICES", cgroup}});
    std::vector<int> found;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) return found;
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp properties;
      EXPECT_EQ(cudaGetDeviceProperties(&properties, i), cudaSuccess);
      found.push_back(properties.pciBusID / 16 - 1);
    }
    return found;
  };
  EXPECT_EQ(buses("0,1,3,4", "all"), (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(buses("3,1", "all"), (std::vector<int>{3, 1}));
  EXPECT_EQ(buses("2,9,1", "all"), (std::vector<int>{2}));
  EXPECT_EQ(buses("1,1", "all"), std::vector<int>{});
  EXPECT_EQ(buses("", "all"), std::vector<int>{});
  EXPECT_EQ(buses("0", "3"), (std::vector<int>{3}));
  restart({{"TPINFER_EMULATION_GPUS", "16MiB;16MiB,uuid=GPU-01234567-89ab-cdef-0123-456789abcdef"},
           {"CUDA_VISIBLE_DEVICES", "GPU-0123"},
           {"TPINFER_EMULATION_DEVICES", "all"}});
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.pciBusID, 0x20);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace tpinfer::cuda
