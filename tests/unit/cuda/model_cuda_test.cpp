// Whole models on a GPU: logits against the goldens, and decoding from graphs against decoding without.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "core/json.hpp"
#include "device_side.hpp"
#include "model_fixture.hpp"

namespace tpinfer::test {
namespace {

using testing::GoldenTensor;

/// A model on one GPU, from folder to forward pass, by the same code as a job.
class GpuModel {
 public:
  GpuModel(const std::string& folder, DType dtype, DType partials) : comm_(make_self_communicator()) {
    const ModelFolder model({.path = folder}, Log());
    setup_.plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, 1, dtype);
    setup_.limits = {.max_rows = 128,
                     .max_sequences = 8,
                     .max_model_len = std::min<std::int64_t>(model.spec.max_positions, 128),
                     .logit_rows = 16};
    setup_.kv_blocks = 64;
    setup_.gpu = true;
    setup_.threads = 1;
    setup_.partials = partials;
    setup_.collective_timeout = 60;
    setup_ = decode_setup(encode_setup(setup_, model.text));
    seat_.sees_gpu = true;
    worker_ = std::make_unique<RankWorker>(setup_, *comm_, *comm_, 0, &seat_);
    worker_->load({});
    worker_->build(*comm_);
  }

  /// Logits of every row of a step of whole sequences' next rows: tokens[s] from position first[s] on.
  std::vector<float> step(const std::vector<std::vector<std::int32_t>>& tokens, const std::vector<std::int32_t>& first,
                          bool watched = false) {
    Step step;
    step.clear();
    step.table_width = 8;
    for (std::size_t s = 0; s < tokens.size(); ++s) {
      for (std::size_t i = 0; i < tokens[s].size(); ++i) {
        const std::int32_t position = first[s] + static_cast<std::int32_t>(i);
        step.logit_rows.push_back(static_cast<std::int32_t>(step.tokens.size()));
        step.tokens.push_back(tokens[s][i]);
        step.positions.push_back(position);
        step.slots.push_back(static_cast<std::int32_t>(s) * 128 + position);
      }
      step.row_begin.push_back(static_cast<std::int32_t>(step.tokens.size()));
      for (std::int32_t b = 0; b < 8; ++b) step.block_table.push_back(static_cast<std::int32_t>(s) * 8 + b);
    }
    std::vector<float> logits(step.tokens.size() * static_cast<std::size_t>(setup_.spec.vocab));
    Transformer& transformer = worker_->transformer();
    transformer.after_layer = watched ? [](std::int64_t, const Tensor&) {} : decltype(transformer.after_layer){};
    transformer.forward(step, [&](std::int64_t at, std::int64_t count, const float* rows) {
      std::copy_n(rows, count * setup_.spec.vocab, logits.data() + at * setup_.spec.vocab);
    });
    return logits;
  }
  /// Steps that ran from a graph.
  std::uint64_t replayed() const { return worker_->transformer().graph_runs(); }

 private:
  std::unique_ptr<Communicator> comm_;
  RunSetup setup_;
  GpuSeat seat_;
  std::unique_ptr<RankWorker> worker_;
};

class CudaModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << cuda_reason();
  }
};

TEST_P(CudaModel, Float32LogitsAreTheReference) {
  const Json golden = read_json_file(GetParam() + "/golden.json");
  const auto tensors = testing::read_golden(GetParam() + "/golden.safetensors");
  for (const DType partials : {DType::float64, DType::float32}) {
    GpuModel model(GetParam(), DType::float32, partials);
    const Json& index = golden["tensor_cases"][0];
    const auto number = index.is_string() ? std::stoul(index.get<std::string>().substr(4)) : index.get<std::size_t>();
    auto ids = golden["cases"][number]["input_ids"].get<std::vector<std::int32_t>>();
    ids.resize(std::min<std::size_t>(ids.size(), 40));
    const std::vector<float> got = model.step({ids}, {0});
    const GoldenTensor& want = tensors.at("case" + std::to_string(number) + ".logits");
    float worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want.values[i]));
    EXPECT_LE(worst, 1e-3F) << dtype_name(partials);
  }
}

TEST_P(CudaModel, GraphsChangeNoBit) {
  GpuModel plain(GetParam(), DType::bfloat16, DType::float32);
  GpuModel graphs(GetParam(), DType::bfloat16, DType::float32);
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int32_t> first;
  for (std::int32_t s = 0; s < 5; ++s) {
    prompts.push_back({});
    for (std::int32_t i = 0; i < 2 + s; ++i) prompts.back().push_back((7 * s + 3 * i + 1) % 200);
    first.push_back(0);
  }
  plain.step(prompts, first, true);
  graphs.step(prompts, first);
  for (std::size_t s = 0; s < prompts.size(); ++s) first[s] = static_cast<std::int32_t>(prompts[s].size());
  // 5 sequences are filled up to 8, later 3 to 4; each size runs plainly, recorded, and from the graph.
  for (const std::size_t sequences : {5, 5, 5, 3, 3, 3, 5}) {
    std::vector<std::vector<std::int32_t>> next;
    for (std::size_t s = 0; s < sequences; ++s) next.push_back({(first[s] * 5 + static_cast<std::int32_t>(s)) % 200});
    const std::vector<std::int32_t> at(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(sequences));
    const std::vector<float> want = plain.step(next, at, true);
    const std::vector<float> got = graphs.step(next, at);
    ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0) << sequences;
    for (std::size_t s = 0; s < sequences; ++s) ++first[s];
  }
  EXPECT_GE(graphs.replayed(), 2U);
}

/// A few that differ in all that kernels see; the others where time is no matter.
std::vector<std::string> folders() {
  std::vector<std::string> all = testing::model_folders();
  if (std::getenv("TPINFER_LONG_TESTS")) return all;
  std::erase_if(all, [](const std::string& folder) {
    for (const char* name :
         {"rand-gpt-bigcode-mqa-odd", "rand-mistral-swa", "rand-mixtral-uneven", "rand-qwen2-moe-mixed", "tiny-llama"})
      if (folder.ends_with(name)) return false;
    return true;
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaModel, ::testing::ValuesIn(folders()), [](const auto& folder) {
  std::string name = folder.param.substr(folder.param.rfind('/') + 1);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace tpinfer::test
