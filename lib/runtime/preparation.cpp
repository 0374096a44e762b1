#include "runtime/preparation.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "backend/factory.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "model/families_tokenizers.hpp"
#include "runtime/prompt_reading.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/shrink.hpp"
#include "runtime/smallest_change.hpp"
#include "shard/cuts.hpp"

namespace tpinfer {
namespace {

void add_ids(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids)
    if (std::ranges::find(to, id) == to.end()) to.push_back(id);
}

// generation_config.json: sampling defaults and end ids. Read also where the model itself has failed.
void read_generation_config(const Job& job, Preparation& p) {
  const std::string file = (std::filesystem::path(job.model.path) / "generation_config.json").string();
  std::error_code ec;
  if (job.model.generation_config == GenerationConfigUse::none || !std::filesystem::exists(file, ec)) return;
  const Json config = read_json_file(file);
  if (!config.is_object()) fail_input("{}: a JSON object is needed, found {}", file, config.type_name());
  p.generation_config = parse_generation_config(config, file);
  const auto ids = read_eos_ids(config, file);
  for (const std::int32_t id : ids)
    if (p.model && id >= p.model->spec.vocab)
      fail_input("{}: eos_token_id {} can never be produced, the vocabulary has {} ids", file, id, p.model->spec.vocab);
  add_ids(p.context.eos_ids, ids);
}

// The end ids of generation_config.json, config.json and the tokenizer together.
void collect_eos_ids(Preparation& p) {
  if (p.model) add_ids(p.context.eos_ids, p.model->spec.eos_token_ids);
  if (p.tokenizer && p.tokenizer->eos_token_id()) add_ids(p.context.eos_ids, {*p.tokenizer->eos_token_id()});
}

void load_tokenizer(const Job& job, Preparation& p) {
  const std::string& folder = job.model.tokenizer_path();
  p.tokenizer = Tokenizer::load(folder, kTokenizerClasses);
  if (!p.model) return;
  if (p.tokenizer->vocab_size() > p.model->spec.vocab) {
    const auto id = static_cast<std::int32_t>(p.tokenizer->vocab_size() - 1);
    fail_input("{}: the token \"{}\" has id {}, but the embedding has only {} rows (vocab_size of config.json)", folder,
               p.tokenizer->id_to_token(id), id, p.model->spec.vocab);
  }
  p.context.allowed_ids.resize(static_cast<std::size_t>(p.model->spec.vocab));
  for (std::size_t id = 0; id < p.context.allowed_ids.size(); ++id)
    p.context.allowed_ids[id] = p.tokenizer->has_token(static_cast<std::int32_t>(id)) ? 1 : 0;
}

/// Runs the steps of a preparation: the first fault ends it, or with a listener is told and only ends its step.
class Attempt {
 public:
  explicit Attempt(const OnFault& on_fault) : on_fault_(on_fault) {}

  // -> whether the step succeeded
  template <class Step>
  bool operator()(Part part, Step step) const {
    try {
      step();
      return true;
    } catch (const Error& e) {
      if (!on_fault_) throw;
      on_fault_(part, e);
      return false;
    }
  }

 private:
  const OnFault& on_fault_;
};

bool is_folder(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_directory(path, ec);
}

// A fault of config.json does not hide those of the weight files.
void open_model(const Job& job, Preparation& p, const Log& log, const Attempt& attempt) {
  if (attempt(Part::model, [&] { p.model = std::make_unique<ModelFolder>(job.model, log); })) return;
  if (is_folder(job.model.path) && job.model.load_format == LoadFormat::safetensors)
    attempt(Part::model, [&] { Checkpoint::open(job.model.path, Log()); });
}

// What `count` ranks might use where `budgets` are those of the ranks that are here: the job's own limit each, or else
// the same memory shared out anew; a GPU more like the smallest for each rank more.
std::vector<std::uint64_t> budgets_of(const Job& job, Device device, const std::vector<std::uint64_t>& budgets,
                                      int count) {
  const auto ranks = static_cast<std::size_t>(count);
  if (ranks == budgets.size()) return budgets;
  if (device == Device::cuda) return std::vector(ranks, *std::ranges::min_element(budgets));
  const std::uint64_t all = std::accumulate(budgets.begin(), budgets.end(), std::uint64_t{0});
  return std::vector(ranks, job.memory.cpu_memory_limit.value_or(all / ranks));
}

void refuse_what_does_not_fit(const MemoryPlan& memory) {
  if (memory.fits) return;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    const RankMemoryPlan& mine = memory.ranks[rank];
    if (mine.fits) continue;
    throw Error(
        ExitCode::does_not_fit,
        fmt::format("the job does not fit: rank {} needs {} (weights {}, KV cache {}, workspace {}), but may use {}",
                    rank, format_bytes_binary(mine.total()), format_bytes_binary(mine.weights),
                    format_bytes_binary(mine.kv_cache), format_bytes_binary(mine.workspace),
                    format_bytes_binary(mine.budget)),
        memory.hint);
  }
}

// memory.on_no_fit: shrink
void shrink_to_fit(const Job& job, PlanTerms& terms, Preparation& p, const Log& log) {
  const ModelSpec& spec = p.model->spec;
  const auto engine = shrunk_engine(spec, p.plan, terms);
  if (!engine) return;
  log.warning("the job does not fit into the memory that it may use, and is shrunk: {} (memory.on_no_fit)",
              engine_changes(job.engine, *engine, spec.max_positions));
  p.engine = terms.engine = *engine;
  if (engine->max_model_len) {
    shorten_requests(p, *engine->max_model_len, job.prompts.on_too_long == TooLong::skip);
    if (terms.demand) terms.demand = demand_of(p.requests);
  }
  p.memory = plan_memory(spec, p.plan, terms);
}

// A cache of the job's own size gets what there is; prompts that do not fit into it at once wait.
void tell_of_a_smaller_cache(const Job& job, Preparation& p, const Log& log) {
  if (p.memory.kv_blocks >= p.memory.wanted_blocks) return;
  log.warning("memory.kv_cache asks for {} tokens that can be of use, but there is memory for {}",
              p.memory.wanted_blocks * p.memory.block_size, p.memory.kv_tokens());
  if (job.memory.on_no_fit == NoFit::shrink)
    p.kv_cache = {.bytes = {}, .tokens = static_cast<std::uint64_t>(p.memory.kv_tokens())};
}

// A sequence longer than a cache of the job's own size cannot run; the others can.
void fail_prompts_beyond_cache(const CacheRoom& room, Preparation& p) {
  std::erase_if(p.requests, [&](const Request& request) {
    return !room.holds(request, p.prompts[static_cast<std::size_t>(request.prompt_index)]);
  });
}

// Whether prompts of any length that may follow find room, as if they were known.
bool has_room_for_any(const MemoryPlan& memory) { return memory.fits && memory.kv_blocks >= memory.wanted_blocks; }

void read_the_others(const Job& job, Preparation& p, const Log& log) {
  p.more->read(encoding_terms(job, p), {}, p.prompts, p.requests);
  p.more->finish(log);
  p.more.reset();
}

}  // namespace

CacheRoom::CacheRoom(const Job& job, const Preparation& p)
    : blocks(p.memory.kv_blocks),
      block_size(p.memory.block_size),
      window(p.model->spec.lookback()),
      skip(job.prompts.on_too_long == TooLong::skip) {}

bool CacheRoom::holds(const Request& request, PromptRow& row) const {
  const std::int64_t tokens = request.most_tokens();
  if (blocks_at_once(tokens, block_size, window) <= blocks) return true;
  row.status = skip ? PromptStatus::skipped : PromptStatus::failed;
  row.error =
      fmt::format("the prompt needs {} tokens of KV cache with its answer, the cache holds {} (memory.kv_cache)",
                  tokens, blocks * block_size);
  return false;
}

EncodingTerms encoding_terms(const Job& job, const Preparation& p) {
  return {.job = job,
          .generation_config = p.generation_config,
          .spec = p.model ? &p.model->spec : nullptr,
          .tokenizer = p.tokenizer ? &*p.tokenizer : nullptr};
}

PromptDemand demand_of(std::span<const Request> requests) {
  PromptDemand demand;
  for (const Request& request : requests) {
    const auto prompt = static_cast<std::int64_t>(request.token_ids.size());
    const std::int64_t samples = request.params->n;
    demand.longest = std::max(demand.longest, request.most_tokens());
    demand.longest_prompt = std::max(demand.longest_prompt, prompt);
    demand.all_tokens += samples * request.most_tokens();
    demand.prompt_tokens += samples * prompt;
    demand.sequences += samples;
    // an id and a log probability, 4 bytes each, for each token and each of its alternatives
    const auto scores = [](std::int64_t tokens, const OptionalInt& alternatives) {
      return static_cast<std::uint64_t>(tokens * 8 * (1 + alternatives.value_or(0)));
    };
    demand.answer_bytes += scores(samples * request.most_new_tokens, request.params->logprobs);
    if (request.params->prompt_logprobs) demand.answer_bytes += scores(prompt, request.params->prompt_logprobs);
  }
  return demand;
}

void check_parallel(const Job& job, int ranks, const Log& log) {
  if (job.parallel.device == Device::cuda && !cuda_available())
    throw Error(ExitCode::usage, "parallel.device: cuda: " + cuda_reason(), "use parallel.device: cpu");
  const std::int64_t replicas = job.parallel.data_parallel_size;
  if (const auto asked = job.parallel.tensor_parallel_size; asked && *asked * replicas != ranks)
    throw Error(ExitCode::usage,
                fmt::format("parallel.tensor_parallel_size is {}{}, but {} ranks were started", *asked,
                            replicas > 1 ? fmt::format(" and data_parallel_size {}", replicas) : "", ranks),
                fmt::format("mpirun -np {}, or leave the key out", *asked * replicas));
  if (ranks % replicas != 0)
    throw Error(ExitCode::usage,
                fmt::format("parallel.data_parallel_size is {}, but {} ranks were started", replicas, ranks),
                "start a multiple of it");
  if (job.engine.reproducible == Reproducible::full && !is_reproducible_count(static_cast<int>(ranks / replicas)))
    log.warning(
        "engine.reproducible: full holds for 1, 2, 3, 4, 6 and 8 ranks; with {} answers may differ from those in the "
        "last bits",
        ranks);
}

bool prepare_prompts(const Job& job, Preparation& p, const Log& log, const OnFault& on_fault,
                     const ReadingTerms& reading) {
  const Attempt attempt(on_fault);
  bool sound = attempt(Part::model, [&] { read_generation_config(job, p); });
  // a fault of the job itself is told once, not by every row
  sound &= attempt(Part::job, [&] { resolve_sampling({}, job.sampling, p.generation_config); });
  std::unique_ptr<PromptReading> prompts;
  sound &= attempt(Part::prompts, [&] { prompts = std::make_unique<PromptReading>(job, reading.stopped); });
  const bool has_folder = p.model || job.model.tokenizer || is_folder(job.model.path);
  // a folder without one will do for prompts that are token ids
  const bool has_tokenizer = Tokenizer::is_in(job.model.tokenizer_path());
  if (has_folder && has_tokenizer) sound &= attempt(Part::tokenizer, [&] { load_tokenizer(job, p); });
  collect_eos_ids(p);
  bool lacks_tokenizer = true;
  if (prompts)
    sound &= attempt(Part::prompts, [&] {
      const bool alone = has_tokenizer && prompts->may_go_on_alone();
      if (prompts->read(encoding_terms(job, p), alone ? reading.first : PartLimit{}, p.prompts, p.requests))
        p.more = std::move(prompts);
      else
        prompts->finish(log);
      lacks_tokenizer = prompts && prompts->collector().lacks_tokenizer();
    });
  if (!has_folder || has_tokenizer) return sound;
  if (lacks_tokenizer) return attempt(Part::tokenizer, [&] { load_tokenizer(job, p); }) && sound;
  log.warning("{} has no tokenizer: answers will have token ids but no text", job.model.tokenizer_path());
  return sound;
}

Preparation prepare(const Job& job, const std::vector<std::uint64_t>& budgets, Device device, const Log& log,
                    const OnFault& on_fault, const ReadingTerms& reading) {
  const Attempt attempt(on_fault);
  Preparation p;
  open_model(job, p, log, attempt);
  const bool prompts = prepare_prompts(job, p, log, on_fault, reading);
  p.device = device;
  p.engine = job.engine;
  p.kv_cache = job.memory.kv_cache;
  if (!p.model) return p;
  if (job.model.verify_weights == VerifyWeights::checksum && job.model.load_format == LoadFormat::safetensors)
    attempt(Part::model, [&] { p.sums = published_sums(job.model.path, p.model->checkpoint.files()); });
  const ModelSpec& spec = p.model->spec;
  const auto ranks = static_cast<int>(budgets.size());
  PlanTerms terms{.engine = job.engine,
                  .kv_cache = job.memory.kv_cache,
                  .compute_dtype = p.model->compute_dtype(job.model.dtype),
                  .device = device,
                  .threads = static_cast<int>(job.parallel.threads.value_or(0)),
                  .budgets = [&](int count) { return budgets_of(job, device, budgets, count); },
                  .demand = prompts ? demand_of(p.requests) : PromptDemand{}};  // unknown: at the least none
  attempt(Part::fit, [&] {
    p.plan = make_sharding_plan(spec, p.model->checkpoint, p.model->claims, ranks, terms.compute_dtype);
    if (p.more) terms.demand->more = true;
    p.memory = plan_memory(spec, p.plan, terms);
    if (p.more && !has_room_for_any(p.memory)) {
      read_the_others(job, p, log);
      terms.demand = demand_of(p.requests);
      p.memory = plan_memory(spec, p.plan, terms);
    }
    if (!p.memory.fits && job.memory.on_no_fit == NoFit::shrink) shrink_to_fit(job, terms, p, log);
    if (!p.memory.fits) p.memory.hint = smallest_change(*p.model, terms, ranks);
    refuse_what_does_not_fit(p.memory);
    tell_of_a_smaller_cache(job, p, log);
    if (prompts) fail_prompts_beyond_cache(CacheRoom(job, p), p);
  });
  return p;
}

}  // namespace tpinfer
