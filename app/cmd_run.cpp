#include "app/cmd_run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>

#include "app/complain.hpp"
#include "app/environment.hpp"
#include "app/job_record.hpp"
#include "app/phase_log.hpp"
#include "app/run_facts.hpp"
#include "app/run_report.hpp"
#include "app/run_setup.hpp"
#include "core/units.hpp"
#include "memory/machine_memory.hpp"
#include "output/rank_row.hpp"
#include "runtime/generation.hpp"
#include "runtime/preparation.hpp"
#include "runtime/rank_worker.hpp"
#include "runtime/result_builder.hpp"

namespace tpinfer {
namespace {

constexpr double kStartTimeout = 60;         // s: ranks come out of MPI_Init together, or cannot reach each other
constexpr double kSetupTimeout = 24 * 3600;  // s: rank 0 may encode prompts, or a cold disk be read, for long

/// The run on one rank; phases in order, each agreed on by all ranks before the next.
class JobRun {
 public:
  JobRun(const RunOptions& options, const MpiSession& mpi, StopSwitch& asked, SignalWatch& signals)
      : options_(options),
        mpi_(mpi),
        asked_(asked),
        signals_(signals),
        comm_(mpi.world(kStartTimeout)),
        start_(std::chrono::steady_clock::now()),
        created_(utc_now()),
        phases_(comm_->rank(), start_) {}

  int run() {
    comm_->barrier("the start");
    comm_ = mpi_.world(kSetupTimeout);
    phases_.time("preparing", [this] { together(*comm_, "preparing", [this] { prepare_all(); }); });
    phases_.time("sharing the plan", [this] { share_setup(); });
    phases_.decide(setup_.tell_phases);
    if (options_.dry_run) return report_dry_run();
    form_replicas();
    const auto work = comm_->all_gather(lead() ? static_cast<std::int64_t>(work_) : 0, "what is left to do")[0];
    if (work != static_cast<std::int64_t>(AnswerStore::Work::run)) return end_without_loading();
    phases_.time("starting the device", [this] {
      together(*comm_, "starting", [this] {
        worker_.emplace(setup_, *comm_, group(), replica(), setup_.gpu ? &gpus_->seat(comm_->rank()) : nullptr);
      });
      worker_->share_reading(group());
    });
    if (!setup_.gpu) look_at_cores();
    if (!setup_.sums.empty())
      phases_.time("verifying checksums",
                   [this] { together(*comm_, "verifying checksums", [this] { verify_sums(); }); });
    phases_.time("loading", [this] { together(*comm_, "loading", [this] { load(); }); });
    phases_.tell(loaded_text(*worker_));
    report_loading(*comm_, *worker_, log_);
    phases_.time("comparing what ranks share", [this] { compare_replicated(); });
    phases_.time("making cache and buffers", [this] { build(); });
    phases_.time("answering", [this] { generate(); });
    if (const EngineTimes& times = worker_->times(); setup_.gpu && times.steps > 0)
      phases_.tell(fmt::format("{} of {} steps were prepared while the one before ran", times.prepared, times.steps));
    return phases_.time("gathering and writing the result", [this] { return finish(); });
  }

  /// Before an error is told.
  void end_progress() { progress_.reset(); }

  Communicator& comm() { return *comm_; }
  /// True while a failure of this rank is not known to the others.
  bool alone() const { return stepping_ || comm_->broken(); }

 private:
  bool lead() const { return comm_->rank() == 0; }

  // Rank 0 alone: job, model, plan, prompts, fit. The others only tell what they have.
  void prepare_all() {
    std::vector<std::int64_t> budgets =
        comm_->all_gather(static_cast<std::int64_t>(fair_share(usable_memory(), comm_->local_size())), "memory");
    const KernelSet set = common_kernel_set(*comm_);
    hosts_ = comm_->all_gather(comm_->host(), "hosts");
    together(*comm_, "reading the job", [this] {
      if (!lead()) return;
      job_ = load_job(options_.job_file, options_.overrides);
      log_ = Log([this](LogLevel level, const std::string& text) { write_log(level, text); });
      check_parallel(*job_, comm_->size(), log_);
    });
    look_for_gpus();
    if (!lead()) return;
    if (setup_.gpu) {
      const auto gpus = gpus_->budgets(job_->memory.gpu_memory_utilization);
      budgets.assign(gpus.begin(), gpus.end());
    }
    layout_ = lay_out_replicas(hosts_, comm_->size() / static_cast<int>(job_->parallel.data_parallel_size));
    const std::vector<std::uint64_t> limits =
        limits_of_a_replica(layout_.places(), budgets, setup_.gpu ? std::nullopt : job_->memory.cpu_memory_limit);
    prepared_ = prepare(*job_, limits, setup_.gpu ? Device::cuda : Device::cpu, log_, {},
                        reading_terms(*job_, options_.dry_run, asked_));
    job_->engine = prepared_->engine;
    job_->memory.kv_cache = prepared_->kv_cache;
    setup_ = make_setup(*job_, *prepared_,
                        {.kernel_set = set,
                         .replicas = static_cast<int>(layout_.leaders.size()),
                         .gpu = setup_.gpu,
                         .shared_gpus = gpus_ && gpus_->shared(),
                         .gpu_graphs = environment("TPINFER_CUDA_GRAPHS") != "0",
                         .gpu_ahead = environment("TPINFER_CUDA_AHEAD") != "0"});
    record_.emplace(*job_, *prepared_, set, created_, signals_, log_);
    if (options_.dry_run)
      record_->look();
    else
      work_ = record_->open();
  }

  // Nothing is to be computed: all is in the result file, or in the journal, of which it is then made.
  int end_without_loading() {
    together(*comm_, "writing the result", [this] {
      if (!lead()) return;
      record_->begin(facts());
      record_->write(facts(), result_);
    });
    return agree_on_end();
  }

  // Only where the job may run on GPUs: starting CUDA takes time and memory.
  void look_for_gpus() {
    std::vector<std::byte> wanted(1);
    if (lead()) wanted[0] = static_cast<std::byte>(job_->parallel.device != Device::cpu);
    comm_->broadcast(wanted, 0, "the job's device");
    if (wanted[0] == std::byte{0}) return;
    gpus_ = GpuChoice::survey(*comm_);
    if (lead()) setup_.gpu = gpus_->decide(job_->parallel);
  }

  // To stderr from the job's level on; warnings to the result file too.
  void write_log(LogLevel level, const std::string& text) {
    const bool warning = level >= LogLevel::warning;
    if (warning) {
      if (std::ranges::find(result_.events, text, &EventRow::message) != result_.events.end()) return;
      result_.events.push_back({.time = seconds_since_start(), .rank = 0, .level = "warning", .message = text});
    }
    if (level < job_->run.log_level) return;
    if (progress_) progress_->clear();
    fmt::print(stderr, "tpinfer: {}{}\n", warning ? options_.errors.warning("warning:") + " " : "", text);
  }

  double seconds_since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // Rank 0's setup goes to all; every rank must have decoded the very same bytes.
  void share_setup() {
    std::vector<std::byte> bytes;
    if (lead()) bytes = encode_setup(setup_, prepared_->model->text);
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

  int replica() const { return layout_.replica[static_cast<std::size_t>(comm_->rank())]; }
  Communicator& group() { return group_ ? *group_ : *comm_; }

  // The ranks that hold one copy of the model together.
  void form_replicas() {
    layout_ = lay_out_replicas(hosts_, comm_->size() / setup_.replicas);
    if (setup_.replicas > 1) group_ = comm_->split(replica(), "replicas");
  }

  // Within a replica by tensor, between replicas as a whole.
  void compare_replicated() {
    worker_->compare_replicated(group());
    if (setup_.replicas == 1) return;
    const auto sums = comm_->all_gather(static_cast<std::int64_t>(worker_->common_checksum()), "replicas' checksums");
    const std::vector<int> places = layout_.places();
    for (std::size_t rank = 0; rank < places.size(); ++rank) {
      const auto first = static_cast<std::size_t>(std::ranges::find(places, places[rank]) - places.begin());
      if (sums[rank] != sums[first])
        throw Error(ExitCode::input,
                    fmt::format("rank {} read other weights than rank {}, of another replica", rank, first),
                    "do all hosts see the same model folder?");
    }
  }

  int report_dry_run() const {
    if (lead())
      log_.info("dry run: {} prompts would run on {} ranks ({} failed already); nothing was loaded",
                prepared_->requests.size(), comm_->size(),
                std::ranges::count(prepared_->prompts, PromptStatus::failed, &PromptRow::status));
    return 0;
  }

  // Cores that a binding leaves idle, or more threads than cores: told, as it only costs time.
  void look_at_cores() {
    const auto asked = lead() ? job_->parallel.threads : std::nullopt;
    for (const std::string& complaint : core_complaints(*comm_, worker_->core_use(), asked))
      log_.warning("{}", complaint);
  }

  // Progress of something that a signal may end.
  LoadProgress shown(std::string_view what) {
    return [this, what, start = seconds_since_start()](std::uint64_t done, std::uint64_t total) {
      if (asked_.asked() != StopSwitch::Asked::no)
        throw Error(ExitCode::stopped_early, "stopped by a signal while loading", "run the same command to go on");
      show_reading(*progress_, what, done, total, seconds_since_start() - start);
    };
  }

  void load() {
    progress_.emplace(lead() ? options_.progress : ProgressStyle::none);
    worker_->load(shown("loading"));
    progress_.reset();
  }

  // The ranks of a host share its files out.
  void verify_sums() {
    progress_.emplace(lead() ? options_.progress : ProgressStyle::none);
    const auto step = static_cast<std::size_t>(comm_->local_size());
    for (auto i = static_cast<std::size_t>(comm_->local_rank()); i < setup_.sums.size(); i += step)
      verify_sum(setup_.sums[i], shown("verifying"));
    progress_.reset();
  }

  void build() {
    worker_->build(group());
    if (lead() && !worker_->transport_note().empty()) log_.warning("{}", worker_->transport_note());
    steps_ = mpi_.world(setup_.collective_timeout);
    if (comm_->size() > 1) mail_ = make_mailbox(*steps_, "messages between ranks");
    if (setup_.replicas > 1) connect_replicas();
  }

  void connect_replicas() {
    group_steps_ = steps_->split(replica(), "replicas");
    together(*comm_, "loading the tokenizer", [this] {
      if (lead() || group().rank() > 0) return;
      context_.eos_ids = setup_.eos_ids;
      context_.allowed_ids = setup_.allowed_ids;
      if (!setup_.tokenizer_folder.empty()) tokenizer_ = Tokenizer::load(setup_.tokenizer_folder);
      if (tokenizer_) context_.tokenizer = &*tokenizer_;
    });
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start_;
    const std::chrono::nanoseconds first(comm_->all_gather(passed.count(), "the clock")[0]);
    start_ = std::chrono::steady_clock::now() - first;
  }

  void generate() {
    const GenerationRank rank{.setup = setup_,
                              .layout = layout_,
                              .worker = *worker_,
                              .steps = group_steps_ ? *group_steps_ : *steps_,
                              .mail = mail_.get(),
                              .asked = asked_,
                              .start = start_};
    stepping_ = true;
    lead() ? lead_run(rank) : help_job(rank, context_);
    stepping_ = false;
    together(*comm_, "reading prompts", [this] {
      if (lead()) record_->end_reading();
    });
  }

  void lead_run(const GenerationRank& rank) {
    record_->begin(facts());
    StopPlan stop = record_->stop_plan(asked_, seconds_since_start());
    progress_.emplace(options_.progress);
    const EngineEvents events = record_->events([&](const StepRow& row) {
      series_.add(row);
      worker_->watch_memory();
      show_progress(*progress_, record_->book(), row, setup_.kv_blocks * setup_.replicas);
    });
    lead_job(rank, record_->requests(), prepared_->context, stop, events);
    progress_.reset();
    result_.steps = series_.take();
  }

  // Records of all ranks to rank 0, which writes the file; all agree on the code.
  int finish() {
    count_inexact_sums();
    const std::vector<std::byte> mine = encode(worker_->finish());
    const auto rows = comm_->gather(mine, 0, "the ranks' records");
    together(*comm_, "writing the result", [&] {
      if (!lead()) return;
      for (const auto& row : rows) result_.ranks.push_back(decode_rank_row(row));
      record_->write(facts(), result_);
    });
    return agree_on_end();
  }

  int agree_on_end() {
    const auto codes = comm_->all_gather(lead() ? static_cast<std::int64_t>(record_->code()) : 0, "the end");
    return static_cast<int>(codes[0]);
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
    RunFacts facts = run_facts(setup_, job_->engine.reproducible, inexact_sums_ == 0);
    facts.created = created_;
    facts.command = options_.command;
    facts.plan_digest = digest_;
    facts.tp_ranks = layout_.places();
    return facts;
  }

  const RunOptions& options_;
  const MpiSession& mpi_;
  StopSwitch& asked_;
  SignalWatch& signals_;
  std::unique_ptr<Communicator> comm_;
  std::vector<std::int64_t> hosts_;  ///< [ranks]
  std::optional<GpuChoice> gpus_;    ///< where the job may run on GPUs
  ReplicaLayout layout_;
  std::unique_ptr<Communicator> group_;        ///< this rank's replica, where there are several
  std::unique_ptr<Communicator> steps_;        ///< for the steps, with the job's collective_timeout
  std::unique_ptr<Communicator> group_steps_;  ///< of these, this rank's replica
  std::unique_ptr<Mailbox> mail_;
  std::optional<Tokenizer> tokenizer_;  ///< on the first rank of another replica, for stop strings
  AnsweringContext context_;            ///< there
  std::chrono::steady_clock::time_point start_;
  std::string created_;
  PhaseLog phases_;
  std::optional<Progress> progress_;  ///< on rank 0, of the phase at hand
  std::optional<Job> job_;
  Log log_;
  std::optional<Preparation> prepared_;
  RunSetup setup_;
  std::string digest_;
  std::optional<RankWorker> worker_;
  RunResult result_;
  std::optional<JobRecord> record_;  ///< on rank 0
  AnswerStore::Work work_ = AnswerStore::Work::run;
  StepSeries series_;
  std::int64_t inexact_sums_ = 0;
  bool stepping_ = false;
};

}  // namespace

int run_job(const RunOptions& options) {
  StopSwitch asked;
  SignalWatch signals(asked);  // before MPI starts threads
  const MpiSession mpi;
  JobRun run(options, mpi, asked, signals);
  try {
    return run.run();
  } catch (const std::exception& e) {
    run.end_progress();
    const ExitCode code = code_of(e);
    if (!run.alone()) {  // every rank is here with the same error
      if (run.comm().rank() == 0) complain(e, options.errors);
      return static_cast<int>(code);
    }
    // a timeout shows on all ranks at nearly the same time: the lowest speaks, and ends the others
    if (code == ExitCode::communication)
      std::this_thread::sleep_for(std::chrono::milliseconds(300 * run.comm().rank()));
    fmt::print(stderr, "tpinfer: {} rank {}: {}\n", options.errors.error("error:"), run.comm().rank(), e.what());
    std::fflush(stderr);
    run.comm().abort(code);
    return static_cast<int>(code);
  }
}

}  // namespace tpinfer
