// Collectives of ranks on emulated GPUs: by NCCL and through host memory, in graphs, and when something fails.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <emulation/control.hpp>
#include <optional>
#include <string>

#include "comm/cuda_communicator.hpp"
#include "comm/cuda_sums.hpp"
#include "device_reference.hpp"
#include "mpi_test.hpp"

namespace tpinfer {
namespace {

using ::testing::HasSubstr;
using testing::kMost;
using testing::world;

/// This rank's emulated GPU and stream.
class GpuCommunicator : public ::testing::Test {
 protected:
  void SetUp() override { restart("late", ""); }
  void TearDown() override {
    stream_.reset();
    unsetenv("TPINFER_EMULATION_FAIL");
    cuda_emulation::reset();
  }
  void restart(const std::string& order, const std::string& fail) {
    stream_.reset();
    setenv("TPINFER_EMULATION_GPUS", "64MiB*4", 1);
    setenv("TPINFER_EMULATION_ORDER", order.c_str(), 1);
    setenv("TPINFER_EMULATION_FAIL", fail.c_str(), 1);
    cuda_emulation::reset();
    ASSERT_EQ(cudaSetDevice(world().rank()), cudaSuccess);
    stream_.emplace(make_stream());
  }
  cudaStream_t stream() { return stream_->get(); }

  std::unique_ptr<DeviceCommunicator> make(Transport transport, DType partials, double timeout = 30,
                                           bool shared_gpus = false) {
    DeviceCommunicatorOptions options = testing::options_for(transport);
    options.partials = partials;
    options.timeout = timeout;
    return make_cuda_communicator(world(), {.device = world().rank(), .stream = stream()}, serial_, options,
                                  shared_gpus);
  }
  CudaMemory upload(const void* data, std::size_t bytes) {
    CudaMemory memory = allocate_cuda(bytes, stream());
    check(cudaMemcpyAsync(memory.get(), data, bytes, cudaMemcpyHostToDevice, stream()), "a test");
    return memory;
  }
  std::vector<float> download(const void* data, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    check(cudaMemcpyAsync(values.data(), data, values.size() * sizeof(float), cudaMemcpyDeviceToHost, stream()),
          "a test");
    check(cudaStreamSynchronize(stream()), "a test");
    return values;
  }
  std::vector<float> reduce(DeviceCommunicator& device, int call, std::int64_t count) {
    const CudaMemory total = allocate_cuda(static_cast<std::size_t>(count) * sizeof(float), stream());
    const Tensor to{total.get(), DType::float32, 1, count};
    const Tensor partials = device.partials(to);
    std::vector<double> values(static_cast<std::size_t>(count));
    testing::fill(device.rank(), call, count, values.data());
    check(cudaMemcpyAsync(partials.data, values.data(), partials.bytes(), cudaMemcpyHostToDevice, stream()), "a test");
    device.reduce(partials, to);
    return download(total.get(), count);
  }
  /// What throws, on this rank; nothing when nothing does.
  template <class Work>
  std::string complaint(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::communication) << error.what();
      return error.what();
    }
    return {};
  }

  testing::SerialFor serial_;

 private:
  std::optional<CudaStream> stream_;
};

TEST_F(GpuCommunicator, ReducesExactlyByEveryWay) {
  for (const char* order : {"late", "eager", "random:7"}) {
    restart(order, "");
    for (const Transport transport : {Transport::automatic, Transport::mpi, Transport::shm}) {
      const auto device = make(transport, DType::float64);
      EXPECT_EQ(device->kind(), world().size() == 1                 ? "self"
                                : transport == Transport::automatic ? "nccl"
                                : transport == Transport::mpi       ? "mpi"
                                                                    : "shm");
      EXPECT_EQ(device->capturable(), device->kind() == "self" || device->kind() == "nccl");
      EXPECT_EQ(device->note(), "");
      int call = 0;
      for (const std::int64_t count : {1L, 7L, 5000L, 100'000L, kMost}) {
        ++call;
        EXPECT_TRUE(testing::same_bits(reduce(*device, call, count), testing::reference(world().size(), call, count)))
            << device->kind() << ", " << count << " values";
      }
      EXPECT_EQ(device->stats().beyond_exact, 0U);
    }
  }
}

TEST_F(GpuCommunicator, AddsFloatsInTheOrderOfRanks) {
  const auto device = make(Transport::automatic, DType::float32);
  const auto value = [](int rank, std::int64_t i) {  // sums depend on their order
    return std::ldexp(1.0F + 0.37F * static_cast<float>((i * 7 + rank * 3) % 11),
                      static_cast<int>((i + rank * 5) % 40));
  };
  for (const std::int64_t count : {1L, 1000L, kSumAtOnce, kSumAtOnce + 1, kMost}) {
    const CudaMemory total = allocate_cuda(static_cast<std::size_t>(count) * sizeof(float), stream());
    const Tensor to{total.get(), DType::float32, 1, count};
    const Tensor partials = device->partials(to);
    std::vector<float> mine;
    std::vector<float> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      mine.push_back(value(world().rank(), i));
      float sum = value(0, i);
      for (int rank = 1; rank < world().size(); ++rank) sum += value(rank, i);
      expected.push_back(sum);
    }
    check(cudaMemcpyAsync(partials.data, mine.data(), partials.bytes(), cudaMemcpyHostToDevice, stream()), "a test");
    device->reduce(partials, to);
    EXPECT_TRUE(testing::same_bits(download(total.get(), count), expected)) << count << " values";
  }
}

TEST_F(GpuCommunicator, GathersUnevenColumns) {
  for (const Transport transport : {Transport::automatic, Transport::mpi}) {
    const auto device = make(transport, DType::float64);
    constexpr std::int64_t kRows = 3;
    std::vector<std::int64_t> widths;
    std::int64_t all = 0;
    for (int rank = 0; rank < world().size(); ++rank) all += widths.emplace_back((rank * 2 + 1) % 4);  // 1 3 1 3
    widths.back() = 0;
    all -= (world().size() * 2 - 1) % 4;
    std::vector<float> expected;
    std::vector<float> mine{0};  // never empty
    for (std::int64_t row = 0; row < kRows; ++row)
      for (int rank = 0; rank < world().size(); ++rank)
        for (std::int64_t col = 0; col < widths[static_cast<std::size_t>(rank)]; ++col)
          expected.push_back(static_cast<float>(rank * 100 + row * 10 + col));
    mine.clear();
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t col = 0; col < widths[static_cast<std::size_t>(world().rank())]; ++col)
        mine.push_back(static_cast<float>(world().rank() * 100 + row * 10 + col));
    mine.push_back(-1);
    const CudaMemory local = upload(mine.data(), mine.size() * sizeof(float));
    const CudaMemory out = allocate_cuda((expected.size() + 1) * sizeof(float), stream());
    device->gather_columns(static_cast<const float*>(local.get()), kRows, widths, static_cast<float*>(out.get()));
    const auto got = download(out.get(), static_cast<std::int64_t>(expected.size()));
    if (world().rank() == 0) {
      EXPECT_EQ(got, expected);
    }
  }
}

TEST_F(GpuCommunicator, GraphsHoldCollectives) {
  for (const char* order : {"late", "random:3"}) {
    restart(order, "");
    const auto device = make(Transport::automatic, DType::float64);
    const CudaMemory total = allocate_cuda(100 * sizeof(float), stream());
    const Tensor to{total.get(), DType::float32, 1, 100};
    ASSERT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
    const CommunicationStats before = device->stats();
    ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    const Tensor partials = device->partials(to);
    device->reduce(partials, to);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
    const CommunicationStats captured = device->take_captured();
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    for (int call = 1; call <= 3; ++call) {
      std::vector<double> values(100);
      testing::fill(world().rank(), call, 100, values.data());
      check(cudaMemcpyAsync(partials.data, values.data(), 800, cudaMemcpyHostToDevice, stream()), "a test");
      ASSERT_EQ(cudaGraphLaunch(exec, stream()), cudaSuccess);
      device->launched(captured);
      EXPECT_TRUE(testing::same_bits(download(total.get(), 100), testing::reference(world().size(), call, 100)));
    }
    const bool alone = world().size() == 1;
    EXPECT_EQ(device->stats().collectives - before.collectives, alone ? 0U : 3U);
    EXPECT_EQ(device->stats().bytes - before.bytes, alone ? 0U : 2400U);
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
}

TEST_F(GpuCommunicator, RanksThatShareAGpuGoThroughTheHost) {
  if (world().size() == 1) GTEST_SKIP() << "one rank shares with nobody";
  const auto device = make(Transport::automatic, DType::float64, 30, true);
  EXPECT_EQ(device->kind(), "shm");
  EXPECT_THAT(std::string(device->note()), HasSubstr("ranks share a GPU"));
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  stream();
  DeviceCommunicatorOptions options = testing::options_for(Transport::nccl);
  const std::string text =
      complaint([&] { make_cuda_communicator(world(), {.device = 0, .stream = stream()}, serial_, options, true); });
  EXPECT_THAT(text, HasSubstr("invalid usage"));
}

// The collective of rank 1 fails or never ends; all ranks end with a sentence after the timeout.
TEST_F(GpuCommunicator, FailuresAndHangsEndInASentence) {
  if (world().size() == 1) GTEST_SKIP() << "one rank has no peers";
  struct Case {
    const char* fail;
    const char* own;
  };
  for (const Case& which : {Case{"allReduce#4=ncclSystemError@1", "NCCL reports \"unhandled system error\""},
                            Case{"allReduce#4=hang@1", "took more than 1 s"},
                            Case{"kernel#8=cudaErrorECCUncorrectable@1", "uncorrectable ECC error"}}) {
    restart("late", which.fail);
    const auto device = make(Transport::nccl, DType::float64, 1.0);
    const std::string text = complaint([&] {
      for (int call = 1; call < 8; ++call) {
        reduce(*device, call, 1000);
        device->throw_if_failed();
      }
    });
    EXPECT_THAT(text, HasSubstr(world().rank() == 1 ? which.own : "took more than 1 s")) << which.fail;
    EXPECT_THAT(text, HasSubstr(world().rank() == 1 && which.fail[0] == 'k'
                                    ? "CUDA reports"
                                    : fmt::format("rank {} of {}", world().rank(), world().size())));
  }
}

TEST_F(GpuCommunicator, ARankThatCannotConnectStopsAll) {
  if (world().size() == 1) GTEST_SKIP() << "one rank does not connect";
  restart("late", "ncclCommInitRank#1=ncclSystemError@1");
  const std::string text = complaint([&] { make(Transport::nccl, DType::float64, 2.0); });
  EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("unhandled system error"), HasSubstr("took more than 2 s")));
  world().barrier("after the failure");
  restart("late", "cudaMalloc#1=cudaErrorMemoryAllocation@1");
  try {
    make(Transport::nccl, DType::float64, 2.0);
    FAIL() << "no complaint";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), HasSubstr("has no room for"));
  }
}

}  // namespace
}  // namespace tpinfer
