#include "runtime/setup.hpp"

#include "core/bytes.hpp"

namespace tpinfer {

std::vector<std::byte> encode_setup(const RunSetup& setup, const ModelText& text) {
  ByteWriter w;
  w.put(text.config);
  w.put(text.config_file);
  w.put(text.plan);
  w.put(text.plan_file);
  const std::vector<std::byte> plan = encode(setup.plan);
  w.put(std::string_view(reinterpret_cast<const char*>(plan.data()), plan.size()));
  w.put(setup.limits.max_rows);
  w.put(setup.limits.max_sequences);
  w.put(setup.limits.max_model_len);
  w.put(setup.limits.logit_rows);
  w.put(setup.kv_blocks);
  w.put(setup.kv_block_size);
  w.put(setup.kernel_set);
  w.put(setup.threads);
  w.put(setup.transport);
  w.put(setup.collective_timeout);
  w.put(setup.read_mode);
  w.put(setup.partials);
  w.put(setup.replicas);
  w.put(setup.prefix_sharing);
  w.put(setup.eos_ids);
  w.put(setup.allowed_ids);
  w.put(setup.tokenizer_folder);
  w.put(setup.gpu);
  w.put(setup.shared_gpus);
  w.put(setup.any_order);
  w.put(setup.gpu_graphs);
  w.put(setup.gpu_ahead);
  w.put(setup.verify_finite);
  w.put(setup.tell_phases);
  w.put(static_cast<std::uint64_t>(setup.sums.size()));
  for (const PublishedSum& sum : setup.sums)
    for (const std::string* word : {&sum.file, &sum.sha256, &sum.source}) w.put(*word);
  return w.take();
}

RunSetup decode_setup(std::span<const std::byte> bytes) {
  ByteReader r(bytes);
  RunSetup setup;
  ModelText text;
  text.config = r.get_string();
  text.config_file = r.get_string();
  text.plan = r.get_string();
  text.plan_file = r.get_string();
  setup.spec = text.resolve();
  const std::string plan = r.get_string();
  setup.plan = decode_plan(std::as_bytes(std::span(plan)));
  setup.limits.max_rows = r.get<std::int64_t>();
  setup.limits.max_sequences = r.get<std::int64_t>();
  setup.limits.max_model_len = r.get<std::int64_t>();
  setup.limits.logit_rows = r.get<std::int64_t>();
  setup.kv_blocks = r.get<std::int64_t>();
  setup.kv_block_size = r.get<std::int64_t>();
  setup.kernel_set = r.get<KernelSet>();
  setup.threads = r.get<int>();
  setup.transport = r.get<Transport>();
  setup.collective_timeout = r.get<double>();
  setup.read_mode = r.get<ReadMode>();
  setup.partials = r.get<DType>();
  setup.replicas = r.get<int>();
  setup.prefix_sharing = r.get<bool>();
  r.get_list(setup.eos_ids);
  r.get_list(setup.allowed_ids);
  setup.tokenizer_folder = r.get_string();
  setup.gpu = r.get<bool>();
  setup.shared_gpus = r.get<bool>();
  setup.any_order = r.get<bool>();
  setup.gpu_graphs = r.get<bool>();
  setup.gpu_ahead = r.get<bool>();
  setup.verify_finite = r.get<bool>();
  setup.tell_phases = r.get<bool>();
  for (auto count = r.get<std::uint64_t>(); count > 0; --count) {
    PublishedSum& sum = setup.sums.emplace_back();
    for (std::string* word : {&sum.file, &sum.sha256, &sum.source}) *word = r.get_string();
  }
  return setup;
}

}  // namespace tpinfer
