// Builds with NCCL. Needs no GPU, except where it says so.
#include <gtest/gtest.h>

#include <vector>

#include "comm/nccl_communicator.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

TEST(NcclToolkit, TheLibraryIsOfTheMajorVersionOfItsHeader) {
  EXPECT_EQ(nccl_version().substr(0, nccl_version().find('.')), std::to_string(NCCL_MAJOR));
}

TEST(NcclToolkit, ADeviceThatIsNotThereIsAClearError) {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  const std::string text = expect_error(
      ExitCode::communication, [&] { NcclCommunicator communicator(*self, {.device = 4096, .stream = nullptr}, {}); });
  EXPECT_NE(text.find("4096"), std::string::npos) << text;
}

TEST(NcclDevice, OneRankReducesAndGathersItsOwn) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU on this machine";
  const std::unique_ptr<Communicator> self = make_self_communicator();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const CudaStream stream = make_stream();
  NcclCommunicator communicator(*self, {.device = 0, .stream = stream.get()}, {.most_partials = 4, .most_gathered = 4});
  const CudaMemory total = allocate_cuda(16, stream.get());
  const CudaMemory gathered = allocate_cuda(16, stream.get());
  const std::vector<double> sums{0.5, -0x1p26, 0x1p-28, 3.0};
  ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);  // the buffers are zeroed there
  ASSERT_EQ(cudaMemcpy(communicator.partials(), sums.data(), 32, cudaMemcpyHostToDevice), cudaSuccess);
  communicator.reduce(4, static_cast<float*>(total.get()));
  const std::int64_t widths[] = {2};
  communicator.gather_columns(static_cast<const float*>(total.get()), 2, widths, static_cast<float*>(gathered.get()));
  EXPECT_EQ(communicator.stats().beyond_exact, 1U);
  EXPECT_EQ(communicator.stats().collectives, 2U);
  std::vector<float> got(4);
  ASSERT_EQ(cudaMemcpy(got.data(), gathered.get(), 16, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(got, (std::vector<float>{0.5F, -0x1p26F, 0x1p-28F, 3.0F}));
}

}  // namespace
}  // namespace tpinfer
