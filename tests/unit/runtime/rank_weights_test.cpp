// What a rank has in memory after loading. Every stored number tells its tensor, row and column, so that the place it
// ends up in can be checked one by one.
#include "runtime/rank_weights.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "backend/cpu/packed_matrix.hpp"
#include "backend/factory.hpp"
#include "runtime/weight_loader.hpp"
#include "shard/sparse_model.hpp"

namespace tpinfer {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kRowStep = 128;           // columns at most
constexpr std::int64_t kTensorStep = 384 * 128;  // rows at most; all in all below 2^24, so exact in float32

// A number for (tensor, row, column); `tensor` is a name of the layout with a tensor for each expert.
class Code {
 public:
  explicit Code(const ModelSpec& spec) {
    for (const ExpectedTensor& tensor : spec.tensors)
      if (tensor.layout != Layout::all_experts) numbers_.emplace(tensor.name, std::ssize(numbers_) + 1);
  }
  float of(const std::string& tensor, std::int64_t row, std::int64_t col) const {
    return static_cast<float>(numbers_.at(tensor) * kTensorStep + row * kRowStep + col);
  }

 private:
  std::map<std::string, std::int64_t> numbers_;
};

// Values of one stored tensor; gate_up_proj and down_proj of all experts say what the experts' own tensors would say.
std::vector<float> values_of(const ExpectedTensor& tensor, const Code& code) {
  const bool stacked = tensor.fusion == Fusion::stacked;
  const std::int64_t experts = stacked ? tensor.shape[0] : 1;
  const std::int64_t rows = tensor.shape[stacked ? 1 : 0];
  const std::int64_t cols = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
  const std::string front = tensor.name.substr(0, tensor.name.rfind('.') + 1);
  std::vector<float> values;
  for (std::int64_t e = 0; e < experts; ++e)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t col = 0; col < cols; ++col) {
        std::string name = tensor.name;
        std::int64_t from = row;
        if (tensor.role == Role::expert_gate_up) {
          const bool up = row >= rows / 2;
          name = fmt::format("{}{}.{}.weight", front, e, up ? "up_proj" : "gate_proj");
          from = up ? row - rows / 2 : row;
        } else if (stacked) {
          name = fmt::format("{}{}.down_proj.weight", front, e);
        }
        values.push_back(code.of(name, from, col));
      }
  return values;
}

void write_model(const std::filesystem::path& folder, const ModelSpec& spec, Layout layout, const Code& code) {
  std::vector<std::string> entries;
  std::string data;
  for (const ExpectedTensor& tensor : spec.tensors) {
    if (tensor.ignored || (tensor.layout != Layout::any && tensor.layout != layout)) continue;
    const std::vector<float> values = values_of(tensor, code);
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    entries.push_back(fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                                  fmt::join(tensor.shape, ","), begin, data.size()));
  }
  const std::string header = test_files::header_of(entries);
  test_files::write_file(folder / "model.safetensors", test_files::length_field(header.size()) + header + data);
}

/// One rank's weights of a model that was written so.
struct Loaded {
  Loaded(const ModelSpec& model, int rank, int ranks, Layout layout = Layout::each_expert)
      : spec(model), code(spec), share(rank_share(spec, rank, ranks)) {
    write_model(folder.path(), spec, layout, code);
    const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
    const Claims claims = claim_tensors(spec, checkpoint, Log());
    plan = make_sharding_plan(spec, checkpoint, claims, ranks, DType::float32);
    weights.emplace(*backend, spec, share, DType::float32);
    report = load_weights(*backend, spec, plan, rank, *weights, nullptr, {});
  }

  // Rows [first, ...) of the matrix are these stored rows, of which it has the columns `cols`.
  void expect(const PackedMatrix& matrix, std::int64_t first, const std::string& tensor, const Numbers& rows,
              Range cols) const {
    ASSERT_EQ(matrix.spec().cols, cols.count()) << tensor;
    ASSERT_LE(first + std::ssize(rows), matrix.spec().rows) << tensor;
    std::vector<double> row(static_cast<std::size_t>(cols.count()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      dynamic_cast<const CpuMatrix&>(matrix).copy_row(first + static_cast<std::int64_t>(i), row.data());
      for (std::int64_t c = 0; c < cols.count(); ++c)
        ASSERT_EQ(row[static_cast<std::size_t>(c)], static_cast<double>(code.of(tensor, rows[i], cols.begin + c)))
            << tensor << " row " << rows[i] << " column " << cols.begin + c;
    }
  }
  void expect(const DeviceBuffer& vector, std::int64_t first, const std::string& tensor, const Numbers& rows) const {
    ASSERT_LE((first + std::ssize(rows)) * 4, static_cast<std::int64_t>(vector.bytes())) << tensor;
    for (std::size_t i = 0; i < rows.size(); ++i)
      ASSERT_EQ(vector.as<float>()[first + static_cast<std::int64_t>(i)], code.of(tensor, rows[i], 0)) << tensor;
  }

  test_files::TemporaryFolder folder;
  ModelSpec spec;
  Code code;
  RankShare share;
  std::unique_ptr<CpuBackend> backend = make_cpu_backend(KernelSet::scalar, 1);
  ShardingPlan plan;
  std::optional<RankWeights> weights;
  LoadReport report;
};

Numbers run(std::int64_t first, std::int64_t count) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}
Numbers run(Range range) { return run(range.begin, range.count()); }

// The leaves of a row-parallel matrix end where any of the reproducible rank counts would cut `width` channels.
void expect_leaves(const PackedMatrix& matrix, std::int64_t width, Range mine) {
  std::set<std::int64_t> ends{mine.count()};
  for (const int ranks : {1, 2, 3, 4, 6, 8})
    for (const std::int64_t cut : channel_cuts(width, ranks))
      if (cut > mine.begin && cut < mine.end) ends.insert(cut - mine.begin);
  EXPECT_EQ(matrix.spec().leaf_ends, Numbers(ends.begin(), ends.end())) << width << " channels";
}

ModelSpec bigcode(bool multi_query) {
  return spec_with(fmt::format(R"({{"architectures": ["GPTBigCodeForCausalLM"], "n_embd": 40, "n_layer": 2, "n_head": 5,
    "n_inner": 100, "n_positions": 64, "multi_query": {}, "vocab_size": 83}})",
                               multi_query));
}

ModelSpec mixtral() {
  return spec_with(R"({"architectures": ["MixtralForCausalLM"], "num_local_experts": 3, "num_experts_per_tok": 2,
    "intermediate_size": 72, "vocab_size": 50, "num_hidden_layers": 1})");
}

ModelSpec qwen2_moe() {
  return spec_with(R"({"architectures": ["Qwen2MoeForCausalLM"], "num_experts": 3, "num_experts_per_tok": 2,
    "num_hidden_layers": 2, "decoder_sparse_step": 2, "moe_intermediate_size": 44, "intermediate_size": 100,
    "shared_expert_intermediate_size": 72, "vocab_size": 50})");
}

TEST(RankWeights, MultiQueryHasItsQueriesAndAllOfKAndV) {
  for (int rank = 0; rank < 3; ++rank) {  // 5 heads of 8: 2, 2, 1
    const Loaded model(bigcode(true), rank, 3);
    const Range heads{rank * 2, std::min(rank * 2 + 2, 5)};
    const LayerWeights& layer = model.weights->layer(1);
    const std::string name = "transformer.h.1.attn.c_attn";
    const std::int64_t queries = heads.count() * 8;
    ASSERT_EQ(layer.qkv->spec().rows, queries + 16);
    model.expect(*layer.qkv, 0, name + ".weight", run(heads.begin * 8, queries), {0, 40});
    model.expect(*layer.qkv, queries, name + ".weight", run(40, 16), {0, 40});
    model.expect(layer.qkv_bias, 0, name + ".bias", run(heads.begin * 8, queries));
    model.expect(layer.qkv_bias, queries, name + ".bias", run(40, 16));
    model.expect(*layer.attn_out, 0, "transformer.h.1.attn.c_proj.weight", run(0, 40),
                 {heads.begin * 8, heads.end * 8});
    // biases that are added after the sum are whole, and as they were stored, on every rank
    model.expect(layer.attn_out_bias, 0, "transformer.h.1.attn.c_proj.bias", run(0, 40));
    model.expect(layer.down_bias, 0, "transformer.h.1.mlp.c_proj.bias", run(0, 40));
    const Range channels = model.share.channels;
    model.expect(*layer.mlp.gate_up, 0, "transformer.h.1.mlp.c_fc.weight", run(channels), {0, 40});
    model.expect(layer.gate_up_bias, 0, "transformer.h.1.mlp.c_fc.bias", run(channels));
    model.expect(*layer.mlp.down, 0, "transformer.h.1.mlp.c_proj.weight", run(0, 40), channels);
    model.expect(*model.weights->positions(), 0, "transformer.wpe.weight", run(0, 64), {0, 40});
    model.expect(model.weights->embedding(), 0, "transformer.wte.weight", run(model.share.vocab), {0, 40});
  }
}

TEST(RankWeights, HeadsWithTriplesBecomeQueriesKeysAndValues) {
  for (int rank = 0; rank < 3; ++rank) {
    const Loaded model(bigcode(false), rank, 3);
    const Range heads{rank * 2, std::min(rank * 2 + 2, 5)};
    const LayerWeights& layer = model.weights->layer(0);
    for (std::int64_t part = 0; part < 3; ++part)
      for (std::int64_t h = heads.begin; h < heads.end; ++h) {
        const std::int64_t to = (part * heads.count() + h - heads.begin) * 8;
        const Numbers rows = run(h * 24 + part * 8, 8);
        model.expect(*layer.qkv, to, "transformer.h.0.attn.c_attn.weight", rows, {0, 40});
        model.expect(layer.qkv_bias, to, "transformer.h.0.attn.c_attn.bias", rows);
      }
  }
}

TEST(RankWeights, AnExpertIsW1AboveW3AndTheColumnsOfW2) {
  for (int rank = 0; rank < 3; ++rank) {
    const Loaded model(mixtral(), rank, 3);
    const Range channels = model.share.expert_channels;
    ASSERT_EQ(channels, (Range{rank * 24, rank * 24 + 24}));
    const LayerWeights& layer = model.weights->layer(0);
    ASSERT_EQ(layer.experts.size(), 3U);
    for (std::size_t e = 0; e < 3; ++e) {
      const std::string name = fmt::format("model.layers.0.block_sparse_moe.experts.{}.", e);
      ASSERT_EQ(layer.experts[e].gate_up->spec().rows, 48);
      model.expect(*layer.experts[e].gate_up, 0, name + "w1.weight", run(channels), {0, 64});
      model.expect(*layer.experts[e].gate_up, 24, name + "w3.weight", run(channels), {0, 64});
      model.expect(*layer.experts[e].down, 0, name + "w2.weight", run(0, 64), channels);
    }
    ASSERT_EQ(layer.router->spec().rows, 3);
    model.expect(*layer.router, 0, "model.layers.0.block_sparse_moe.gate.weight", run(0, 3), {0, 64});
  }
}

void expect_mixture(const Loaded& model) {
  const LayerWeights& layer = model.weights->layer(1);
  const std::string name = "model.layers.1.mlp.";
  ASSERT_EQ(layer.experts.size(), 4U);
  const auto mlp = [&](const MlpWeights& weights, const std::string& front, Range channels) {
    model.expect(*weights.gate_up, 0, front + "gate_proj.weight", run(channels), {0, 64});
    model.expect(*weights.gate_up, channels.count(), front + "up_proj.weight", run(channels), {0, 64});
    model.expect(*weights.down, 0, front + "down_proj.weight", run(0, 64), channels);
  };
  // each kind of MLP has the leaves of its own width
  expect_leaves(*model.weights->layer(0).mlp.down, 100, model.share.channels);
  for (std::size_t e = 0; e < 3; ++e) expect_leaves(*layer.experts[e].down, 44, model.share.expert_channels);
  expect_leaves(*layer.experts[3].down, 72, model.share.shared_channels);
  for (std::size_t e = 0; e < 3; ++e)
    mlp(layer.experts[e], fmt::format("{}experts.{}.", name, e), model.share.expert_channels);
  mlp(layer.experts[3], name + "shared_expert.", model.share.shared_channels);
  mlp(model.weights->layer(0).mlp, "model.layers.0.mlp.", model.share.channels);
  ASSERT_EQ(layer.router->spec().rows, 4);
  model.expect(*layer.router, 0, name + "gate.weight", run(0, 3), {0, 64});
  model.expect(*layer.router, 3, name + "shared_expert_gate.weight", {0}, {0, 64});
  // 8 query heads in 2 groups
  const Range q{model.share.query_heads.begin * 8, model.share.query_heads.end * 8};
  const Range kv{model.share.kv_heads.begin * 8, model.share.kv_heads.end * 8};
  const std::string attention = "model.layers.1.self_attn.";
  std::int64_t row = 0;
  for (const auto& [part, range] : {std::pair{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}}) {
    model.expect(*layer.qkv, row, attention + part + ".weight", run(range), {0, 64});
    model.expect(layer.qkv_bias, row, attention + part + ".bias", run(range));
    row += range.count();
  }
}

TEST(RankWeights, TheSharedExpertIsTheLastAndItsGateTheRoutersLastRow) {
  for (int rank = 0; rank < 3; ++rank) expect_mixture(Loaded(qwen2_moe(), rank, 3));
}

TEST(RankWeights, ExpertsInOneTensorLieAsThoseWithTheirOwn) {
  for (int rank = 0; rank < 3; ++rank) expect_mixture(Loaded(qwen2_moe(), rank, 3, Layout::all_experts));
}

TEST(RankWeights, ATiedHeadIsTheEmbeddingAndIsOwnedOnce) {
  const Loaded tied(spec_with(R"({"tie_word_embeddings": true})"), 1, 2);
  const Loaded untied(spec_with(), 1, 2);
  EXPECT_EQ(&tied.weights->head(), &tied.weights->embedding());
  EXPECT_NE(&untied.weights->head(), &untied.weights->embedding());
  const std::size_t rest =
      untied.weights->bytes() - untied.weights->embedding().bytes() - untied.weights->head().bytes();
  EXPECT_EQ(tied.weights->bytes(), rest + tied.weights->embedding().bytes());
  // as planned, but for padding
  EXPECT_GE(tied.weights->bytes(), tied.plan.per_rank[1].weights_bytes);
  std::uint64_t owned = 0;
  for (const LoadedBytes& bytes : tied.report.by_class) owned += bytes.owned;
  EXPECT_NEAR(static_cast<double>(owned), static_cast<double>(tied.weights->bytes()), 64);
}

}  // namespace
}  // namespace tpinfer
