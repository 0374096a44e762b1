// Logits and hidden states of every model in tests/data/models against the reference's float32 results, on the ranks
// this is started with.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/json.hpp"
#include "model_fixture.hpp"
#include "mpi_test.hpp"

namespace tpinfer::testing {
namespace {

constexpr float kLogitTolerance = 1e-4F;
constexpr float kRelative =
    2e-6F;  // the residual stream reaches magnitudes of a hundred and more: a few units in the last place

float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const float d = std::abs(a[i] - b[i]);
    worst = d > worst || std::isnan(d) ? d : worst;
  }
  return worst;
}

float largest_magnitude(std::span<const float> a) {
  float most = 0;
  for (const float v : a) most = std::max(most, std::abs(v));
  return most;
}

struct Case {
  std::string name;
  std::vector<std::int32_t> ids;
};

std::vector<Case> tensor_cases(const std::string& folder) {
  const Json golden = read_json_file(folder + "/golden.json");
  std::vector<Case> cases;
  for (const Json& index : golden["tensor_cases"]) {
    const auto number = index.is_string() ? std::stoul(index.get<std::string>().substr(4)) : index.get<std::size_t>();
    cases.push_back(
        {"case" + std::to_string(number), golden["cases"][number]["input_ids"].get<std::vector<std::int32_t>>()});
  }
  EXPECT_FALSE(cases.empty());
  return cases;
}

/// A random model goes through all kernel sets and types on two ranks; elsewhere through the best set and bfloat16.
/// TPINFER_LONG_TESTS=1: all of them everywhere.
class EveryModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string config = GetParam() + "/config.json";
    const ModelSpec spec = make_model_spec(parse_json(read_text_file(config), config), config);
    if (spec.q_heads < world().size()) GTEST_SKIP() << "only " << spec.q_heads << " query heads";
  }
  static bool is_brief() {
    return GetParam().find("/rand-") != std::string::npos && world().size() != 2 && !std::getenv("TPINFER_LONG_TESTS");
  }
  static std::vector<KernelSet> kernel_sets() {
    const std::vector<KernelSet> all = available_kernel_sets();
    return is_brief() ? std::vector{all.back()} : all;
  }
  /// Without a set whose float32 products are another's.
  static std::vector<KernelSet> float32_sets() {
    std::vector<KernelSet> sets = kernel_sets();
    if (sets.size() > 1) std::erase(sets, KernelSet::avx512_bf16);
    return sets;
  }
  static std::vector<DType> types() {
    if (is_brief()) return {DType::bfloat16};
    return {DType::float32, DType::float16, DType::bfloat16};
  }
};

void expect_the_reference(const std::string& folder, KernelSet set, DType partials) {
  SCOPED_TRACE(std::string(kernel_set_name(set)) + ", sums in " + std::string(dtype_name(partials)));
  ModelFixture model(world(), folder, {.kernels = set, .partials = partials});
  const auto golden = read_golden(folder + "/golden.safetensors");
  for (const Case& test : tensor_cases(folder)) {
    const auto out = model.run(test.ids, 512);
    for (std::size_t layer = 0; layer < out.hidden.size(); ++layer) {
      const std::string name = test.name + ".hidden." + (layer == 0 ? "embed" : std::to_string(layer - 1));
      const std::vector<float>& wanted = golden.at(name).values;
      EXPECT_LE(largest_difference(out.hidden[layer], wanted), kLogitTolerance + kRelative * largest_magnitude(wanted))
          << name;
    }
    if (world().rank() != 0) continue;
    EXPECT_LE(largest_difference(out.logits, golden.at(test.name + ".logits").values), kLogitTolerance) << test.name;
  }
  EXPECT_EQ(model.worker().communication().beyond_exact, 0U);
}

TEST_P(EveryModel, Float32LogitsAndHiddenStatesAreTheReference) {
  for (const KernelSet set : float32_sets()) expect_the_reference(GetParam(), set, DType::float64);
}

// engine.reproducible: off
TEST_P(EveryModel, PlainSumsAreTheReferenceToo) {
  for (const KernelSet set : float32_sets()) expect_the_reference(GetParam(), set, DType::float32);
}

TEST_P(EveryModel, ChunksAndThreadsGiveTheSameBits) {
  for (const DType dtype : types()) {
    for (const KernelSet set : kernel_sets()) {
      const std::vector<std::int32_t> ids = tensor_cases(GetParam()).front().ids;
      ModelFixture one(world(), GetParam(), {.dtype = dtype, .kernels = set});
      ModelFixture two(world(), GetParam(),
                       {.dtype = dtype, .kernels = set, .threads = 2, .transport = Transport::mpi});
      const auto whole = one.run(ids, 512).logits;
      ASSERT_EQ(whole, one.run(ids, 1).logits) << kernel_set_name(set);
      ASSERT_EQ(whole, two.run(ids, 3).logits) << kernel_set_name(set);
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(info.param.rfind('/') + 1);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(model_folders()), test_name);

}  // namespace
}  // namespace tpinfer::testing
