// Builds with the toolkit: its libraries are linked and of the version of their headers, and failures are sentences.
// Needs no GPU.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "backend/cuda/cuda_backend.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

TEST(CudaToolkit, TheRuntimeIsThatOfItsHeader) {
  int runtime = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_EQ(runtime, CUDART_VERSION);
}

TEST(CudaToolkit, CublasLtIsOpenedWhenItIsWanted) {
  const CublasLtApi& api = cublas_lt_api();
  EXPECT_NO_THROW(api.check(CUBLAS_STATUS_SUCCESS, "nothing"));
  const std::string text =
      expect_error(ExitCode::communication, [&] { api.check(CUBLAS_STATUS_NOT_SUPPORTED, "a product"); });
  EXPECT_NE(text.find("a product failed"), std::string::npos) << text;
  EXPECT_NE(text.find("not supported"), std::string::npos) << text;
}

TEST(CudaToolkit, StatusCodesBecomeSentences) {
  EXPECT_NO_THROW(check(cudaSuccess, "nothing"));
  const std::string cuda =
      expect_error(ExitCode::communication, [] { check(cudaErrorIllegalAddress, "waiting for the device"); });
  EXPECT_NE(cuda.find("waiting for the device failed"), std::string::npos) << cuda;
  EXPECT_NE(cuda.find("illegal memory access"), std::string::npos) << cuda;
}

TEST(CudaToolkit, ADeviceThatIsNotThereIsAClearError) {
  for (const int device : {-1, 4096}) {
    const std::string text = expect_error(ExitCode::usage, [&] { CudaBackend backend(device); });
    EXPECT_NE(text.find(std::to_string(device)), std::string::npos) << text;
    EXPECT_NE(text.find("use parallel.device: cpu"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tpinfer
