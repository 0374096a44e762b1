#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/factory.hpp"
#include "checkpoint/published_sum.hpp"
#include "checkpoint/weight_file.hpp"
#include "comm/device_communicator.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"
#include "shard/sharding_plan.hpp"

namespace tpinfer {

/// What rank 0 decides before any weight is read and every rank needs.
struct RunSetup {
  ModelSpec spec;
  ShardingPlan plan;
  TransformerLimits limits;
  std::int64_t kv_blocks = 0;
  std::int64_t kv_block_size = 16;
  KernelSet kernel_set = KernelSet::scalar;
  int threads = 0;  ///< per rank; 0: the cores that a rank may use, shared out
  Transport transport = Transport::automatic;
  double collective_timeout = 300;
  ReadMode read_mode = ReadMode::automatic;
  DType partials = DType::float64;  ///< of row-parallel sums: float32 where they need not be reproducible
  int replicas = 1;                 ///< groups of ranks that each hold the whole model
  bool prefix_sharing = true;
  std::vector<std::int32_t> eos_ids;  ///< see AnsweringContext, for replicas
  std::vector<std::uint8_t> allowed_ids;
  std::string tokenizer_folder;    ///< not empty: replicas need it, to see stop strings
  bool gpu = false;                ///< ranks compute on the GPUs of their GpuChoice
  bool shared_gpus = false;        ///< several ranks on one of them
  bool any_order = false;          ///< GPU: products may depend on the rows of a batch
  bool gpu_graphs = true;          ///< GPU: decode steps run from recorded graphs
  bool gpu_ahead = true;           ///< GPU: a step's inputs are prepared while the one before it runs
  bool verify_finite = false;      ///< refuse weights that are NaN or infinite
  bool tell_phases = false;        ///< each rank tells what it does (run.log_level: debug)
  std::vector<PublishedSum> sums;  ///< that the weight files must have; empty: not looked at
};

/// The setup as rank 0 broadcasts it; each rank resolves the model itself from `text`.
std::vector<std::byte> encode_setup(const RunSetup& setup, const ModelText& text);
RunSetup decode_setup(std::span<const std::byte> bytes);

}  // namespace tpinfer
