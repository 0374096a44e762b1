// The bytes are a config.json. It must end in a sentence or in a model; where that is small, its tensors are planned
// for three ranks, and the plan covers each of them and survives its encoding.

#include "core/json.hpp"
#include "fuzz_folder.hpp"
#include "model/families.hpp"
#include "shard/sharding_plan.hpp"

namespace {

using namespace tpinfer;

constexpr std::size_t kMostTensors = 2000;

void plan(const ModelSpec& spec) {
  std::vector<TensorInfo> tensors;
  for (const ExpectedTensor& tensor : spec.tensors)
    if (!tensor.ignored && tensor.layout != Layout::all_experts)
      tensors.push_back({.name = tensor.name, .dtype = DType::bfloat16, .shape = tensor.shape});
  const Checkpoint checkpoint = Checkpoint::random(std::move(tensors));
  const Claims claims = claim_tensors(spec, checkpoint, Log());
  const ShardingPlan made = make_sharding_plan(spec, checkpoint, claims, 3, DType::bfloat16);
  const std::vector<std::byte> bytes = encode(made);
  const ShardingPlan read = decode_plan(bytes);
  prove_coverage(spec, read);
  fuzz::require(encode(read) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::may_refuse(ExitCode::input, [&] {
    const ModelSpec spec = make_model_spec(parse_json(fuzz::text_of(data, size), "config.json"), "config.json");
    if (spec.tensors.size() > kMostTensors) return;
    try {
      plan(spec);
    } catch (const Error& error) {  // fewer heads than ranks
      if (error.code() != ExitCode::does_not_fit) throw;
    }
  });
  return 0;
}
