// What holds in every build, with or without the CUDA toolkit, on machines with or without a GPU.
#include <gtest/gtest.h>

#include "backend/factory.hpp"
#include "comm/nccl.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

TEST(Cuda, AReasonStandsWhereItIsNotAvailable) {
  EXPECT_EQ(cuda_available(), cuda_reason().empty());
  EXPECT_EQ(nccl_available(), nccl_reason().empty());
}

TEST(Cuda, AGpuThatIsNotThereIsAClearError) {
  const std::string cuda = expect_error(ExitCode::usage, [] { make_cuda_backend(4096); });
  EXPECT_NE(cuda.find("CUDA device 4096"), std::string::npos) << cuda;
  EXPECT_NE(cuda.find(cuda_reason()), std::string::npos) << cuda;
  EXPECT_NE(cuda.find("use parallel.device: cpu"), std::string::npos) << cuda;
}

TEST(Cuda, AskingForNcclWhereItIsNotIsAClearError) {
  if (nccl_available()) GTEST_SKIP() << "NCCL is there";
  const std::unique_ptr<Communicator> self = make_self_communicator();
  const std::string nccl = expect_error(ExitCode::usage, [&] { make_nccl_communicator(*self, {}, {}); });
  EXPECT_NE(nccl.find(nccl_reason()), std::string::npos) << nccl;
  EXPECT_NE(nccl.find("use parallel.communication: auto"), std::string::npos) << nccl;
}

}  // namespace
}  // namespace tpinfer
