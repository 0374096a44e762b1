#include "runtime/generation.hpp"

namespace tpinfer {
namespace {

void run_engine(const GenerationRank& rank, RequestSource& source, const AnsweringContext& context,
                const EngineEvents& events) {
  const RunSetup& setup = rank.setup;
  const SchedulerLimits limits{.max_sequences = setup.limits.max_sequences,
                               .max_rows = setup.limits.max_rows,
                               .block_size = setup.kv_block_size,
                               .blocks = setup.kv_blocks,
                               .prefix_sharing = setup.prefix_sharing,
                               .window = setup.spec.lookback()};
  Engine engine(rank.steps, rank.worker.transformer(), rank.worker.parallel(), limits, context, setup.spec.vocab,
                rank.start);
  engine.prepare_ahead(setup.gpu_ahead);
  engine.run(source, events);
  rank.worker.times() = engine.times();
}

}  // namespace

void lead_job(const GenerationRank& rank, RequestList requests, const AnsweringContext& context, StopPlan& stop,
              const EngineEvents& events) {
  if (rank.layout.leaders.size() == 1) {
    StoppableList list(std::move(requests), rank.mail, stop, rank.asked);
    return run_engine(rank, list, context, events);
  }
  Dealer dealer(*rank.mail, std::move(requests), rank.layout.leaders, replica_ahead(rank.setup.limits.max_sequences),
                rank.setup.collective_timeout, stop, rank.asked, events);
  const EngineEvents own{.answer =
                             [&](AnswerRow row) {
                               dealer.ended_here();
                               events.answer(std::move(row));
                             },
                         .failed =
                             [&](std::int64_t prompt, const std::string& error) {
                               dealer.ended_here();
                               events.failed(prompt, error);
                             },
                         .scored = events.scored,
                         .step =
                             [&](const StepRow& row) {
                               dealer.step_here(row);
                               dealer.serve();
                             }};
  run_engine(rank, dealer, context, own);
  dealer.serve_until_done();
}

void help_job(const GenerationRank& rank, const AnsweringContext& context) {
  StopTeller teller(rank.mail, rank.asked);
  const auto after_step = [&] {
    rank.worker.watch_memory();
    teller.tell();
  };
  if (rank.steps.rank() > 0)
    return follow(rank.steps, rank.worker.transformer(), rank.worker.parallel(), rank.setup.allowed_ids,
                  rank.worker.times(), after_step);
  ReplicaSource source(*rank.mail, replica_ahead(rank.setup.limits.max_sequences));
  run_engine(rank, source, context, source.events(after_step));
  source.finish(rank.setup.collective_timeout);
}

}  // namespace tpinfer
