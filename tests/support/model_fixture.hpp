#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/factory.hpp"
#include "comm/communicator.hpp"
#include "runtime/model_folder.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer::testing {

/// A float32 tensor of a golden file.
struct GoldenTensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// All tensors of a safetensors file of float32.
std::map<std::string, GoldenTensor> read_golden(const std::string& file);

struct FixtureOptions {
  DType dtype = DType::float32;
  KernelSet kernels = KernelSet::scalar;
  int threads = 1;
  Transport transport = Transport::automatic;
  DType partials = DType::float64;  ///< float32: engine.reproducible: off
  std::int64_t kv_blocks = 32;
  std::int64_t max_sequences = 4;
};

/// A model on the ranks of `comm`, from folder to forward pass, by the same code as a job.
class ModelFixture {
 public:
  ModelFixture(Communicator& comm, const std::string& folder, const FixtureOptions& options);

  struct Output {
    std::vector<float> logits;               ///< [tokens, vocab], on rank 0
    std::vector<std::vector<float>> hidden;  ///< [layers + 1][tokens * hidden]: after the embedding, after each layer
  };
  /// One prompt from position 0, in chunks of at most `chunk` tokens.
  Output run(const std::vector<std::int32_t>& ids, std::int64_t chunk);

  const ModelSpec& spec() const { return setup_.spec; }
  const RankWorker& worker() const { return *worker_; }
  RankWorker& worker() { return *worker_; }
  const RunSetup& setup() const { return setup_; }

 private:
  RunSetup setup_;
  std::optional<RankWorker> worker_;
};

/// Folders below tests/data/models, sorted.
std::vector<std::string> model_folders();

/// The kernel sets that this processor has.
std::vector<KernelSet> available_kernel_sets();

}  // namespace tpinfer::testing
