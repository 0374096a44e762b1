#include "app/cmd_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>

#include "build_facts.hpp"
#include "core/units.hpp"
#include "memory/machine_memory.hpp"
#include "output/rank_row.hpp"
#include "output/result_writer.hpp"
#include "runtime/preparation.hpp"
#include "runtime/rank_worker.hpp"
#include "runtime/result_builder.hpp"
#include "shard/cuts.hpp"

namespace tpinfer {
namespace {

constexpr double kSetupTimeout = 24 * 3600;  // s: rank 0 may encode prompts, or a cold disk be read, for long

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The run on one rank; phases in order, each agreed on by all ranks before the next.
class JobRun {
 public:
  JobRun(const RunOptions& options, const MpiSession& mpi)
      : options_(options),
        mpi_(mpi),
        comm_(mpi.world(kSetupTimeout)),
        start_(std::chrono::steady_clock::now()),
        created_(utc_now()) {}

  int run() {
    together(*comm_, "preparing", [this] { prepare_all(); });
    share_setup();
    if (options_.dry_run) return report_dry_run();
    together(*comm_, "starting", [this] { worker_.emplace(setup_, *comm_); });
    worker_->share_reading(*comm_);
    together(*comm_, "loading", [this] { load(); });
    worker_->compare_replicated(*comm_);
    build();
    generate();
    return finish();
  }

  Communicator& comm() { return *comm_; }
  /// True while a failure of this rank is not known to the others.
  bool alone() const { return stepping_ || comm_->broken(); }

 private:
  bool lead() const { return comm_->rank() == 0; }

  // Rank 0 alone: job, model, plan, prompts, fit. The others only tell what they have.
  void prepare_all() {
    std::vector<std::int64_t> budgets =
        comm_->all_gather(static_cast<std::int64_t>(fair_share(usable_memory(), comm_->local_size())), "memory");
    KernelSet mine = KernelSet::scalar;
    std::exception_ptr failure;
    try {
      mine = choose_kernel_set(environment("TPINFER_ISA"));
    } catch (...) {
      failure = std::current_exception();
    }
    agree(*comm_, failure, "choosing kernels");
    KernelSet set = mine;
    for (const std::int64_t other : comm_->all_gather(static_cast<std::int64_t>(mine), "kernel sets"))
      set = std::min(set, static_cast<KernelSet>(other));
    if (!lead()) return;
    job_ = load_job(options_.job_file, options_.overrides);
    log_ = Log([this](LogLevel level, const std::string& text) { write_log(level, text); });
    check_parallel(*job_, comm_->size(), log_);
    std::vector<std::uint64_t> limits;
    for (const std::int64_t share : budgets)
      limits.push_back(job_->memory.cpu_memory_limit.value_or(static_cast<std::uint64_t>(share)));
    prepared_ = prepare(*job_, limits, cpu_activation_dtype, log_);
    check_output(job_->output);
    prepared_->context.start = start_;
    fill_setup(set);
  }

  // To stderr from the job's level on; warnings to the result file too.
  void write_log(LogLevel level, const std::string& text) {
    const bool warning = level >= LogLevel::warning;
    if (warning)
      result_.events.push_back({.time = seconds_since_start(), .rank = 0, .level = "warning", .message = text});
    if (level >= job_->run.log_level) fmt::print(stderr, "tpinfer: {}{}\n", warning ? "warning: " : "", text);
  }

  double seconds_since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void fill_setup(KernelSet set) {
    setup_.plan = prepared_->plan;
    setup_.limits = prepared_->memory.limits;
    setup_.kv_blocks = prepared_->memory.kv_blocks;
    setup_.kv_block_size = prepared_->memory.block_size;
    setup_.kernel_set = set;
    setup_.threads = static_cast<int>(job_->parallel.threads.value_or(0));
    setup_.transport = job_->parallel.communication == Communication::mpi   ? Transport::mpi
                       : job_->parallel.communication == Communication::shm ? Transport::shm
                                                                            : Transport::automatic;
    setup_.collective_timeout = job_->run.collective_timeout;
    setup_.verify_finite = job_->model.verify_weights == VerifyWeights::finite;
  }

  // Rank 0's setup goes to all; every rank must have decoded the very same bytes.
  void share_setup() {
    std::vector<std::byte> bytes;
    if (lead()) bytes = encode_setup(setup_, prepared_->model->config_text, prepared_->model->config_file);
    comm_->broadcast(bytes, 0, "the plan");
    together(*comm_, "reading the plan", [&] {
      setup_ = decode_setup(bytes);
      prove_coverage(setup_.spec, setup_.plan);
      digest_ = plan_digest(encode(setup_.plan));
    });
    const auto digests =
        comm_->all_gather(static_cast<std::int64_t>(std::stoull(digest_, nullptr, 16)), "plan digests");
    for (std::size_t rank = 1; rank < digests.size(); ++rank)
      if (digests[rank] != digests[0])
        throw Error(ExitCode::communication, fmt::format("rank {} has another sharding plan than rank 0", rank),
                    "do all ranks run the same build?");
  }

  int report_dry_run() const {
    if (lead())
      log_.info("dry run: {} prompts would run on {} ranks ({} failed already); nothing was loaded",
                prepared_->requests.size(), comm_->size(), prepared_->prompts.size() - prepared_->requests.size());
    return 0;
  }

  void load() {
    Progress progress(lead() ? options_.progress : ProgressStyle::none);
    worker_->load([&](std::uint64_t done, std::uint64_t total) {
      progress.show(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)),
                    fmt::format("loading {} of {} on rank 0", format_bytes(done), format_bytes(total)));
    });
  }

  void build() {
    worker_->build(*comm_);
    if (lead() && !worker_->transport_note().empty()) log_.warning("{}", worker_->transport_note());
    steps_ = mpi_.world(setup_.collective_timeout);
  }

  void generate() {
    stepping_ = true;
    if (lead())
      lead_run();
    else
      follow(*steps_, worker_->transformer(), worker_->times(), [this] { worker_->watch_memory(); });
    stepping_ = false;
  }

  void lead_run() {
    const SchedulerLimits limits{.max_sequences = setup_.limits.max_sequences,
                                 .max_rows = setup_.limits.max_rows,
                                 .block_size = setup_.kv_block_size,
                                 .blocks = setup_.kv_blocks};
    result_.prompts = prepared_->prompts;
    skip_special_.resize(result_.prompts.size());
    for (const Request& request : prepared_->requests)
      skip_special_[static_cast<std::size_t>(request.prompt_index)] = request.params.skip_special_tokens;
    for (const PromptRow& row : result_.prompts) failed_ += row.status == PromptStatus::failed ? 1 : 0;
    Progress progress(options_.progress);
    Engine engine(*steps_, worker_->transformer(), worker_->parallel(), limits, prepared_->context);
    const EngineEvents events{
        .answer = [this](AnswerRow row) { take_answer(std::move(row)); },
        .failed = [this](std::int64_t prompt, std::string error) { fail_prompt(prompt, std::move(error)); },
        .scored = [this](std::int64_t prompt, PromptRow& scores) { take_scores(prompt, scores); },
        .step =
            [&](const StepRow& row) {
              series_.add(row);
              worker_->watch_memory();
              show_progress(progress, row);
            }};
    engine.run(prepared_->requests, events);
    worker_->times() = engine.times();
    result_.steps = series_.take();
  }

  void take_answer(AnswerRow row) {
    PromptRow& prompt = result_.prompts[static_cast<std::size_t>(row.prompt_index)];
    prompt.status = PromptStatus::done;
    tokens_ += row.token_ids.size();
    if (prepared_->tokenizer) {
      row.text = prepared_->tokenizer->decode(row.token_ids, skip_special_[static_cast<std::size_t>(row.prompt_index)]);
      row.text_lossy = row.text.find("\xEF\xBF\xBD") != std::string::npos;
    }
    result_.answers.push_back(std::move(row));
    ++done_;
  }

  void fail_prompt(std::int64_t index, std::string error) {
    PromptRow& prompt = result_.prompts[static_cast<std::size_t>(index)];
    prompt.status = PromptStatus::failed;
    prompt.error = std::move(error);
    ++failed_;
  }

  void take_scores(std::int64_t index, PromptRow& scores) {
    PromptRow& prompt = result_.prompts[static_cast<std::size_t>(index)];
    prompt.prompt_logprobs = std::move(scores.prompt_logprobs);
    prompt.prompt_top_k = scores.prompt_top_k;
    prompt.prompt_top_ids = std::move(scores.prompt_top_ids);
    prompt.prompt_top_logprobs = std::move(scores.prompt_top_logprobs);
  }

  void show_progress(Progress& progress, const StepRow& row) const {
    const auto all = result_.prompts.size();
    const double elapsed = row.t;
    const double share = static_cast<double>(done_ + failed_) / static_cast<double>(all);
    const double left = share > 0 ? elapsed / share - elapsed : 0;
    progress.show(share, fmt::format("{}/{} prompts | {:.0f} tok/s | {} elapsed | ETA {} | kv {:.0f}% | failed {}",
                                     done_ + failed_, all, static_cast<double>(tokens_) / std::max(elapsed, 1e-9),
                                     format_clock(elapsed), format_clock(left),
                                     100.0 * row.kv_blocks_used / static_cast<double>(setup_.kv_blocks), failed_));
  }

  // Records of all ranks to rank 0, which writes the file; all agree on the code.
  int finish() {
    count_inexact_sums();
    const std::vector<std::byte> mine = encode(worker_->finish());
    const auto rows = comm_->gather(mine, 0, "the ranks' records");
    together(*comm_, "writing the result", [&] {
      if (!lead()) return;
      for (const auto& row : rows) result_.ranks.push_back(decode_rank_row(row));
      describe_run(*job_, *prepared_, facts(), result_);
      write_result_file(job_->output.file, result_);
    });
    if (lead()) report_end();
    const auto failed = comm_->all_gather(static_cast<std::int64_t>(failed_), "the end");
    return static_cast<int>(failed[0] > 0 ? ExitCode::prompts_failed : ExitCode::ok);
  }

  // The bitwise promise lapses where a sum was too large to be added exactly: told once.
  void count_inexact_sums() {
    const auto counts = comm_->all_gather(static_cast<std::int64_t>(worker_->communication().beyond_exact),
                                          "sums beyond the exact range");
    inexact_sums_ = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (lead() && inexact_sums_ > 0)
      log_.warning("{} sums were too large to be added exactly: their last bits may depend on the number of ranks",
                   inexact_sums_);
  }

  RunFacts facts() const {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    const bool full =
        is_reproducible_count(comm_->size()) && job_->engine.reproducible != Reproducible::batch && inexact_sums_ == 0;
    return {.created = created_,
            .command = options_.command,
            .tpinfer_version = kVersion,
            .git_commit = kGitCommit,
            .hostname = host,
            .mpi_library = mpi_library_version(),
            .slurm_job_id = environment("SLURM_JOB_ID"),
            .kernel_set = std::string(kernel_set_name(setup_.kernel_set)),
            .plan_digest = digest_,
            .reproducible = full ? "full" : "batch"};
  }

  // Failed prompts with their reasons, a screenful at most.
  void report_failed() const {
    constexpr std::size_t kMost = 20;
    std::size_t count = 0;
    for (const PromptRow& row : result_.prompts)
      if (row.status == PromptStatus::failed && ++count <= kMost)
        fmt::print(stderr, "tpinfer: error: prompt {}: {}\n", row.id, row.error);
    if (count > kMost)
      fmt::print(stderr, "tpinfer: error: {} more prompts failed (tpinfer show {} --errors)\n", count - kMost,
                 job_->output.file);
  }

  void report_end() const {
    report_failed();
    double first = 1e300;
    double last = 0;
    for (const AnswerRow& row : result_.answers) {
      first = std::min(first, row.t_queued);
      last = std::max(last, row.t_finished);
    }
    const double seconds = result_.answers.empty() ? 0 : last - first;
    log_.info("{} of {} prompts answered, {} failed, {} tokens in {:.2f} s ({:.0f} tok/s)", done_,
              result_.prompts.size(), failed_, tokens_, seconds,
              static_cast<double>(tokens_) / std::max(seconds, 1e-9));
    std::uint64_t peak = 0;
    for (const RankRow& rank : result_.ranks) peak = std::max(peak, rank.memory.back().rss_peak);
    log_.info("results: {} (largest rank: {} resident); see them with: tpinfer show {}", job_->output.file,
              format_bytes(peak), job_->output.file);
  }

  const RunOptions& options_;
  const MpiSession& mpi_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Communicator> steps_;  ///< for the steps, with the job's collective_timeout
  std::chrono::steady_clock::time_point start_;
  std::string created_;
  std::optional<Job> job_;
  Log log_;
  std::optional<Preparation> prepared_;
  RunSetup setup_;
  std::string digest_;
  std::optional<RankWorker> worker_;
  RunResult result_;
  StepSeries series_;
  std::vector<bool> skip_special_;  ///< [prompts]
  std::uint64_t tokens_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::int64_t inexact_sums_ = 0;
  bool stepping_ = false;
};

void print_error(const std::exception& e) {
  // complaints about a job file are lines of their own, each with its place
  if (dynamic_cast<const JobError*>(&e))
    fmt::print(stderr, "{}\n", e.what());
  else
    fmt::print(stderr, "tpinfer: error: {}\n", e.what());
  std::fflush(stderr);
}

}  // namespace

int run_job(const RunOptions& options) {
  const MpiSession mpi;
  JobRun run(options, mpi);
  try {
    return run.run();
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    const ExitCode code = error ? error->code() : ExitCode::internal;
    if (!run.alone()) {  // every rank is here with the same error
      if (run.comm().rank() == 0) print_error(e);
      return static_cast<int>(code);
    }
    // a timeout shows on all ranks at nearly the same time: the lowest speaks, and ends the others
    if (code == ExitCode::communication)
      std::this_thread::sleep_for(std::chrono::milliseconds(300 * run.comm().rank()));
    fmt::print(stderr, "tpinfer: error: rank {}: {}\n", run.comm().rank(), e.what());
    std::fflush(stderr);
    run.comm().abort(code);
    return static_cast<int>(code);
  }
}

}  // namespace tpinfer
