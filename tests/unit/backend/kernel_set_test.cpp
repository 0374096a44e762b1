#include <gtest/gtest.h>

#include "core/error.hpp"
#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

TEST(KernelSet, NamesAreThoseOfTheResultFile) {
  EXPECT_EQ(kernel_set_name(KernelSet::scalar), "scalar");
  EXPECT_EQ(kernel_set_name(KernelSet::avx2), "avx2");
  EXPECT_EQ(kernel_set_name(KernelSet::avx512), "avx512");
  EXPECT_EQ(kernel_set_name(KernelSet::avx512_bf16), "avx512-bf16");
}

TEST(KernelSet, ForcedSetIsTakenWhereTheProcessorHasIt) {
  for (const KernelSet set : test::usable_sets()) EXPECT_EQ(choose_kernel_set(kernel_set_name(set)), set);
  EXPECT_EQ(choose_kernel_set(""), best_kernel_set());
}

TEST(KernelSet, UnknownNameIsAUsageError) {
  try {
    choose_kernel_set("avx1024");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("avx1024"), std::string::npos);
  }
}

TEST(KernelSet, BackendTellsItsSet) {
  for (const KernelSet set : test::usable_sets()) {
    const auto backend = make_cpu_backend(set, 1);
    EXPECT_EQ(backend->info().kind, "cpu");
    EXPECT_EQ(backend->info().kernel_set, kernel_set_name(set));
    EXPECT_FALSE(backend->info().name.empty());
    EXPECT_EQ(backend->activation_dtype(DType::float16), DType::float32);
    EXPECT_EQ(backend->activation_dtype(DType::bfloat16), DType::bfloat16);
  }
}

TEST(CpuMemory, IsZeroedAlignedAndCopied) {
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{3} << 20}) {
    const DeviceBuffer buffer(*backend, bytes);
    const auto* data = buffer.as<unsigned char>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    EXPECT_EQ(std::count(data, data + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
    const char in = 'x';
    char out = 0;
    backend->copy_to_device(buffer.data(), &in, 1);
    backend->copy_to_host(&out, buffer.data(), 1);
    backend->synchronize();
    EXPECT_EQ(out, 'x');
  }
}

TEST(CpuMemory, TooMuchIsAnErrorThatSaysSo) {
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  try {
    backend->allocate(std::size_t{1} << 62);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
  }
}

}  // namespace
}  // namespace tpinfer
