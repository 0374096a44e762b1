// Builds with NCCL. Needs no GPU, except where it says so.
#include <gtest/gtest.h>

#include <vector>

#include "comm/cuda_communicator.hpp"
#include "comm/nccl_api.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

/// One thread.
class Alone final : public ParallelFor {
 public:
  int threads() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, const RangeBody& body) override { body(0, count); }
};

TEST(NcclToolkit, TheLibraryIsOfTheMajorVersionOfItsHeader) {
  if (!nccl_available()) GTEST_SKIP() << nccl_reason();
  EXPECT_EQ(nccl_version().substr(0, nccl_version().find('.')), std::to_string(NCCL_MAJOR));
}

TEST(NcclToolkit, ADeviceThatIsNotThereIsAClearError) {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  Alone alone;
  const std::string text = expect_error(ExitCode::communication, [&] {
    make_cuda_communicator(*self, {.device = 4096, .stream = nullptr}, alone, {}, false);
  });
  EXPECT_NE(text.find("4096"), std::string::npos) << text;
}

TEST(NcclDevice, OneRankReducesAndGathersItsOwn) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU on this machine";
  const std::unique_ptr<Communicator> self = make_self_communicator();
  Alone alone;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const CudaStream stream = make_stream();
  const auto communicator =
      make_cuda_communicator(*self, {.device = 0, .stream = stream.get()}, alone,
                             {.most_partials = 4, .partials = DType::float64, .most_gathered = 4}, false);
  const CudaMemory total = allocate_cuda(16, stream.get());
  const CudaMemory gathered = allocate_cuda(16, stream.get());
  const std::vector<double> sums{0.5, -0x1p26, 0x1p-28, 3.0};
  const Tensor to{total.get(), DType::float32, 2, 2};
  const Tensor partials = communicator->partials(to);
  ASSERT_EQ(cudaMemcpyAsync(partials.data, sums.data(), 32, cudaMemcpyHostToDevice, stream.get()), cudaSuccess);
  communicator->reduce(partials, to);
  const std::int64_t widths[] = {2};
  communicator->gather_columns(to.floats(), 2, widths, static_cast<float*>(gathered.get()));
  EXPECT_EQ(communicator->stats().beyond_exact, 1U);
  std::vector<float> got(4);
  ASSERT_EQ(cudaMemcpyAsync(got.data(), gathered.get(), 16, cudaMemcpyDeviceToHost, stream.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_EQ(got, (std::vector<float>{0.5F, -0x1p26F, 0x1p-28F, 3.0F}));
}

}  // namespace
}  // namespace tpinfer
