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

TEST(Cuda, CannotBeSelectedWhileOperationsAreMissing) {
  EXPECT_FALSE(cuda_available());
  EXPECT_FALSE(nccl_available());
}

TEST(Cuda, AskingForItAllTheSameIsAClearError) {
  const std::string cuda = expect_error(ExitCode::usage, [] { make_cuda_backend(3); });
  EXPECT_NE(cuda.find("CUDA device 3"), std::string::npos) << cuda;
  EXPECT_NE(cuda.find(cuda_reason()), std::string::npos) << cuda;
  EXPECT_NE(cuda.find("use parallel.device: cpu"), std::string::npos) << cuda;
  const std::unique_ptr<Communicator> self = make_self_communicator();
  const std::string nccl = expect_error(ExitCode::usage, [&] { make_nccl_device_communicator(*self, {}, {}); });
  EXPECT_NE(nccl.find(nccl_reason()), std::string::npos) << nccl;
  EXPECT_NE(nccl.find("use parallel.communication: auto"), std::string::npos) << nccl;
}

}  // namespace
}  // namespace tpinfer
