#include "model_fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/json.hpp"

namespace tpinfer::testing {

std::map<std::string, GoldenTensor> read_golden(const std::string& file) {
  const std::string bytes = read_text_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const Json header = parse_json(std::string_view(bytes).substr(8, length), file);
  std::map<std::string, GoldenTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    GoldenTensor& tensor = tensors[name];
    tensor.shape = entry["shape"].get<std::vector<std::int64_t>>();
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    tensor.values.resize((end - begin) / sizeof(float));
    std::memcpy(tensor.values.data(), bytes.data() + 8 + length + begin, end - begin);
  }
  return tensors;
}

ModelFixture::ModelFixture(Communicator& comm, const std::string& folder, const FixtureOptions& options) {
  const ModelFolder model({.path = folder}, Log());
  setup_.plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, comm.size(), options.dtype);
  setup_.limits = {.max_rows = 512,
                   .max_sequences = options.max_sequences,
                   .max_model_len = std::min<std::int64_t>(model.spec.max_positions, 512),
                   .logit_rows = std::max<std::int64_t>(16, options.max_sequences)};
  setup_.kv_blocks = options.kv_blocks;
  setup_.kernel_set = options.kernels;
  setup_.threads = options.threads;
  setup_.transport = options.transport;
  setup_.partials = options.partials;
  setup_.collective_timeout = 60;
  setup_ = decode_setup(encode_setup(setup_, model.text));
  worker_.emplace(setup_, comm, comm, 0, nullptr);
  worker_->share_reading(comm);
  worker_->load({});
  worker_->compare_replicated(comm);
  worker_->build(comm);
}

ModelFixture::Output ModelFixture::run(const std::vector<std::int32_t>& ids, std::int64_t chunk) {
  Output out;
  const ModelSpec& model = spec();
  out.hidden.resize(static_cast<std::size_t>(model.layers) + 1);
  out.logits.resize(ids.size() * static_cast<std::size_t>(model.vocab));
  Transformer& transformer = worker_->transformer();
  transformer.after_layer = [&](std::int64_t layer, const Tensor& residual) {
    auto& list = out.hidden[static_cast<std::size_t>(layer + 1)];
    list.insert(list.end(), residual.floats(), residual.floats() + residual.rows * residual.cols);  // the CPU's memory
  };
  const auto total = static_cast<std::int64_t>(ids.size());
  for (std::int64_t first = 0; first < total; first += chunk) {
    const std::int64_t rows = std::min(chunk, total - first);
    Step step;
    step.clear();
    for (std::int64_t i = first; i < first + rows; ++i) {
      step.tokens.push_back(ids[static_cast<std::size_t>(i)]);
      step.positions.push_back(static_cast<std::int32_t>(i));
      step.slots.push_back(static_cast<std::int32_t>(i));
      step.logit_rows.push_back(static_cast<std::int32_t>(i - first));
    }
    step.row_begin.push_back(static_cast<std::int32_t>(rows));
    step.table_width = static_cast<std::int32_t>((first + rows + 15) / 16);
    step.block_table.resize(static_cast<std::size_t>(step.table_width));
    std::iota(step.block_table.begin(), step.block_table.end(), 0);
    transformer.forward(step, [&](std::int64_t at, std::int64_t count, const float* logits) {
      std::copy_n(logits, count * model.vocab, out.logits.data() + (first + at) * model.vocab);
    });
  }
  return out;
}

std::vector<std::string> model_folders() {
  std::vector<std::string> folders;
  std::set<std::string> names;  // a model of this tree goes before one of that name beside it
  std::error_code none;
  std::vector<const char*> parents{TPINFER_TEST_DATA "/models"};
  if (std::getenv("TPINFER_LONG_TESTS")) parents.push_back(TPINFER_SHARED "/models/random");
  for (const char* all : parents)
    for (const auto& entry : std::filesystem::directory_iterator(all, none))
      if (names.insert(entry.path().filename().string()).second) folders.push_back(entry.path().string());
  std::ranges::sort(folders);
  return folders;
}

std::vector<KernelSet> available_kernel_sets() {
  std::vector<KernelSet> sets;
  for (const KernelSet set : {KernelSet::scalar, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16})
    if (has_kernel_set(set)) sets.push_back(set);
  return sets;
}

}  // namespace tpinfer::testing
