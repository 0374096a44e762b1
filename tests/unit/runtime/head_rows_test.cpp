// Only rows of which something is wanted go through the head: counted at its product, against what was sampled and
// scored.
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/factory.hpp"
#include "comm/device_communicator.hpp"
#include "runtime/engine.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"
#include "runtime/weight_loader.hpp"

namespace tpinfer {
namespace {

/// The CPU, which notes the rows of the products with one matrix.
class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(CpuBackend& cpu) : cpu_(cpu) {}

  const PackedMatrix* watched = nullptr;
  std::int64_t rows = 0;      ///< of products with `watched`
  std::int64_t all_rows = 0;  ///< that were embedded

  DeviceInfo info() const override { return cpu_.info(); }
  DType activation_dtype(DType compute) const override { return cpu_.activation_dtype(compute); }
  void* allocate(std::size_t bytes) override { return cpu_.allocate(bytes); }
  void release(void* data, std::size_t bytes) noexcept override { cpu_.release(data, bytes); }
  void copy_to_device(void* to, const void* from, std::size_t n) override { cpu_.copy_to_device(to, from, n); }
  void copy_to_host(void* to, const void* from, std::size_t n) override { cpu_.copy_to_host(to, from, n); }
  void synchronize() override { cpu_.synchronize(); }
  std::unique_ptr<PackedMatrix> create_matrix(const MatrixSpec& spec) override { return cpu_.create_matrix(spec); }
  void load_matrix(PackedMatrix& m, std::int64_t row, std::int64_t col, const StoredMatrix& from) override {
    cpu_.load_matrix(m, row, col, from);
  }
  std::unique_ptr<KvStore> create_kv_store(const KvSpec& spec) override { return cpu_.create_kv_store(spec); }
  void embed(const PackedMatrix& table, std::int64_t first, const StepBatch& batch, const Tensor& partials) override {
    all_rows += batch.rows;
    cpu_.embed(table, first, batch, partials);
  }
  void norm(const Tensor& x, const NormParams& params, const Tensor& out) override { cpu_.norm(x, params, out); }
  void matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) override {
    if (&w == watched) rows += x.rows;
    cpu_.matmul(w, x, bias, y);
  }
  void matmul_partial(const PackedMatrix& w, const Tensor& x, const Tensor& p) override {
    cpu_.matmul_partial(w, x, p);
  }
  void rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope, const StepBatch& batch,
                        KvStore& kv, std::int64_t layer, const Tensor& q) override {
    cpu_.rotate_and_store(qkv, heads, rope, batch, kv, layer, q);
  }
  void attention(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params, const StepBatch& batch,
                 const KvStore& kv, std::int64_t layer, const Tensor& out) override {
    cpu_.attention(q, heads, params, batch, kv, layer, out);
  }
  void activate(const Tensor& x, Activation act, bool gated, const Tensor& out) override {
    cpu_.activate(x, act, gated, out);
  }
  void add_residual(const Tensor& residual, const float* total, const float* bias, float scale) override {
    cpu_.add_residual(residual, total, bias, scale);
  }
  void add_rows(const PackedMatrix& table, std::int64_t first, const std::int32_t* index, const Tensor& to) override {
    cpu_.add_rows(table, first, index, to);
  }
  void adjust(const Tensor& x, const AdjustParams& params) override { cpu_.adjust(x, params); }
  void head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k, const Tensor& to) override {
    cpu_.head_squares(qkv, heads, first_k, to);
  }
  void norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params) override {
    cpu_.norm_heads(qkv, heads, params);
  }
  void route(const Tensor& logits, const RoutingParams& params, const Routing& routing) override {
    cpu_.route(logits, params, routing);
  }
  void experts(std::span<const ExpertMatrices> list, const Tensor& x, const Routing& routing, Activation act,
               bool gated, const ExpertScratch& scratch, const Tensor& partials) override {
    cpu_.experts(list, x, routing, act, gated, scratch, partials);
  }
  void copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) override { cpu_.copy_kv_blocks(kv, pairs); }
  void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) override {
    cpu_.gather_rows(x, index, out);
  }

 private:
  CpuBackend& cpu_;
};

struct Counts {
  std::int64_t head = 0, all = 0, tokens = 0, scores = 0;
};

constexpr std::int64_t kPromptTokens[] = {1, 40, 7, 23, 90, 12};  // 90: several chunks

Counts run(const char* name, std::optional<std::int64_t> prompt_logprobs) {
  const auto comm = make_self_communicator();
  const ModelFolder model({.path = std::string(TPINFER_TEST_DATA "/models/") + name}, Log());
  const ShardingPlan plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, 1, DType::float32);
  const RankShare& share = plan.per_rank[0].share;
  const TransformerLimits limits{.max_rows = 64, .max_sequences = 4, .max_model_len = 128, .logit_rows = 16};
  const auto cpu = make_cpu_backend(KernelSet::scalar, 1);
  CountingBackend backend(*cpu);
  RankWeights weights(backend, model.spec, share, DType::float32);
  load_weights(backend, model.spec, plan, 0, weights, nullptr, {});
  backend.watched = &weights.head();
  DeviceCommunicatorOptions options = gpu_collectives(model.spec, plan, limits, DType::float64);
  options.most_gathered = most_gathered(model.spec, limits, 1);
  const auto device = make_host_device_communicator(*comm, cpu->parallel(), options);
  const auto kv = backend.create_kv_store(kv_spec(model.spec, share, DType::float32, 16, 32));
  Transformer transformer(backend, *device, model.spec, share, weights, *kv, limits);
  const AnsweringContext context;
  Engine engine(*comm, transformer, cpu->parallel(),
                {.max_sequences = 4, .max_rows = 64, .block_size = 16, .blocks = 32}, context, model.spec.vocab,
                std::chrono::steady_clock::now());
  std::vector<Request> requests;
  for (const std::int64_t tokens : kPromptTokens) {
    Request request{.prompt_index = std::ssize(requests), .id_hash = 1, .token_ids = {}};
    SamplingParams params;
    params.ignore_eos = true;
    params.prompt_logprobs = prompt_logprobs;
    request.params = std::make_shared<const SamplingParams>(params);
    request.most_new_tokens = 3 + std::ssize(requests);
    for (std::int64_t i = 0; i < tokens; ++i)
      request.token_ids.push_back(static_cast<std::int32_t>((i * 37 + 5 * std::ssize(requests)) % model.spec.vocab));
    requests.push_back(std::move(request));
  }
  backend.rows = backend.all_rows = 0;  // the self-test is over
  Counts counts;
  RequestList source(std::move(requests));
  engine.run(source,
             {.answer = [&](const AnswerRow& row) { counts.tokens += std::ssize(row.token_ids); },
              .failed = [](std::int64_t, const std::string& error) { ADD_FAILURE() << error; },
              .scored = [&](std::int64_t, PromptRow& row) { counts.scores += std::ssize(row.prompt_logprobs) - 1; },
              .step = [](const StepRow&) {}});
  counts.head = backend.rows;
  counts.all = backend.all_rows;
  return counts;
}

TEST(HeadRows, OnlyThoseThatAreSampled) {
  for (const char* name : {"rand-llama-uneven", "rand-llama-tied", "rand-gpt-bigcode-mha"}) {
    const Counts counts = run(name, std::nullopt);
    EXPECT_EQ(counts.tokens, 3 + 4 + 5 + 6 + 7 + 8) << name;
    EXPECT_EQ(counts.head, counts.tokens) << name;
    EXPECT_GE(counts.all, counts.tokens + 1 + 40 + 7 + 23 + 90 + 12 - 6) << "each prompt's other rows are computed";
  }
}

TEST(HeadRows, AllOfAPromptThatIsScored) {
  const Counts counts = run("rand-llama-uneven", 0);
  EXPECT_EQ(counts.scores, 1 + 40 + 7 + 23 + 90 + 12 - 6);
  EXPECT_EQ(counts.head, counts.tokens + counts.scores);
}

}  // namespace
}  // namespace tpinfer
