// Builds with the toolkit: its libraries are linked and of the version of their headers, and failures are sentences.
// Needs no GPU.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

TEST(CudaToolkit, LibrariesAreThoseOfTheHeaders) {
  int runtime = 0;
  ASSERT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_EQ(runtime, CUDART_VERSION);
  EXPECT_EQ(cublasLtGetVersion() / 10000, std::size_t{CUBLAS_VERSION} / 10000);
}

TEST(CudaToolkit, StatusCodesBecomeSentences) {
  EXPECT_NO_THROW(check(cudaSuccess, "nothing"));
  EXPECT_NO_THROW(check(CUBLAS_STATUS_SUCCESS, "nothing"));
  const std::string cuda =
      expect_error(ExitCode::communication, [] { check(cudaErrorIllegalAddress, "waiting for the device"); });
  EXPECT_NE(cuda.find("waiting for the device failed"), std::string::npos) << cuda;
  EXPECT_NE(cuda.find("illegal memory access"), std::string::npos) << cuda;
  const std::string cublas =
      expect_error(ExitCode::communication, [] { check(CUBLAS_STATUS_NOT_SUPPORTED, "a product"); });
  EXPECT_NE(cublas.find("not supported"), std::string::npos) << cublas;
}

TEST(CudaToolkit, ADeviceThatIsNotThereIsAClearError) {
  for (const int device : {-1, 4096}) {
    const std::string text = expect_error(ExitCode::usage, [&] { CudaBackend backend(device); });
    EXPECT_NE(text.find(std::to_string(device)), std::string::npos) << text;
    EXPECT_NE(text.find("use parallel.device: cpu"), std::string::npos) << text;
  }
}

TEST(CudaToolkit, RowsAreConvertedToTheComputeType) {
  // A stored [2, 3] bfloat16 matrix, held transposed: element (r, c) at 2 * (c * 2 + r).
  std::vector<std::uint16_t> stored;
  for (const float value : {1.0F, -2.5F, 0.0F, 3.0F, 7.0F, 0.15625F}) stored.push_back(float_to_bfloat16(value));
  const StoredMatrix from{.data = reinterpret_cast<const std::byte*>(stored.data()),
                          .dtype = DType::bfloat16,
                          .rows = 2,
                          .cols = 3,
                          .row_stride = 2,
                          .col_stride = 4};
  std::vector<float> wide(2);
  convert_row(from, 1, 1, 2, DType::float32, reinterpret_cast<std::byte*>(wide.data()));
  EXPECT_EQ(wide, (std::vector<float>{3.0F, 0.15625F}));
  std::vector<std::uint16_t> same(3);
  convert_row(from, 0, 0, 3, DType::bfloat16, reinterpret_cast<std::byte*>(same.data()));
  EXPECT_EQ(same, (std::vector<std::uint16_t>{stored[0], stored[2], stored[4]}));
  std::vector<std::uint16_t> half(3);
  convert_row(from, 0, 0, 3, DType::float16, reinterpret_cast<std::byte*>(half.data()));
  EXPECT_EQ(half, (std::vector<std::uint16_t>{0x3C00, 0, 0x4700}));
}

}  // namespace
}  // namespace tpinfer
