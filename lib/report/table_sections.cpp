#include <algorithm>
#include <map>

#include "core/units.hpp"
#include "output/answer_stats.hpp"
#include "output/result_names.hpp"
#include "report/charts.hpp"
#include "report/sections.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kSlowest = 20, kMostErrors = 100, kMostEvents = 100, kMostAttempts = 50, kMostRanks = 256;
constexpr std::size_t kIdLetters = 60, kTextLetters = 100, kErrorLetters = 300, kFactLetters = 400;
constexpr std::size_t kJobBytes = 32 * 1024;

Html figure_card(const char* name, const std::string& value, const std::string& more = {}) {
  return html("<div class=\"card\"><span>{}</span><b>{}</b><small>{}</small></div>\n", name, value, more);
}

/// Facts with their names; empty ones are left out.
class Facts {
 public:
  void add(const char* name, const std::string& value) {
    if (!value.empty()) rows_ += html("<dt>{}</dt><dd>{}</dd>\n", name, shortened(value, kFactLetters));
  }
  Html done() const { return html("<dl>\n{}</dl>\n", rows_); }

 private:
  Html rows_;
};

Html outside_text(const std::string& text, std::size_t letters) {
  return html("<bdi>{}</bdi>", shortened(text, letters));
}

std::string what_was_asked(const PromptRow& prompt) {
  return prompt.text.empty() && !prompt.token_ids.empty() ? fmt::format("({} token ids)", prompt.token_ids.size())
                                                          : prompt.text;
}

std::string duration(double seconds) {
  seconds = std::min(positive(seconds), 1e9);
  return seconds < 120 ? fmt::format("{:.1f} s", seconds) : format_clock(seconds);
}

std::string peak_text(const RunResult& r) {
  std::uint64_t most = 0;
  for (const RankRow& rank : r.ranks) most = std::max(most, peak_of(rank, &RankRow::Memory::rss_peak));
  return most > 0 ? format_bytes(most) : "";
}

}  // namespace

Html only_at_the_end(std::string_view what) {
  return note(fmt::format("{} is known when the job has ended: make this page again from the result file then.", what));
}

Section summary_section(const RunResult& r, const std::string& file) {
  Section section{"summary", "Summary", {}};
  std::string others;
  for (const auto status : {PromptStatus::failed, PromptStatus::skipped, PromptStatus::pending})
    if (const auto n = count_prompts(r, status); n > 0)
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ", format_count(n), name_of(status));
  Html cards;
  cards += figure_card(
      "prompts answered",
      fmt::format("{} of {}", format_count(count_prompts(r, PromptStatus::done)), format_count(r.prompts.size())),
      others);
  cards += figure_card("tokens of answers", format_count(count_tokens(r.answers)),
                       fmt::format("{} of prompts", format_count(count_tokens(r.prompts))));
  cards += figure_card("throughput", fmt::format("{:.1f} tokens/s", tokens_per_second(r)),
                       fmt::format("in {} of answering", duration(generation_seconds(r))));
  cards += figure_card("ranks", fmt::format("{}", r.world_size),
                       r.data_parallel_size > 1
                           ? fmt::format("{} replicas of {}", r.data_parallel_size, r.tensor_parallel_size)
                           : "one copy of the model");
  if (const std::string peak = peak_text(r); !peak.empty())
    cards += figure_card("largest rank", peak, "resident at its peak");
  section.body = html("<div class=\"cards\">{}</div>\n", cards);
  Facts facts;
  facts.add("file", file);
  facts.add("state", fmt::format("{}{}", name_of(r.state),
                                 r.state == RunState::complete ? "" : ": the same command again goes on with it"));
  facts.add("model", r.model_path);
  facts.add("architecture", fmt::format("{}, {} parameters, stored as {}, computed in {}", r.architecture,
                                        format_count(r.parameters), r.dtype_stored, r.dtype_compute));
  facts.add("begun, ended", fmt::format("{}{}{}", r.created, r.finished.empty() ? "" : " to ", r.finished));
  facts.add("attempts", r.attempts.size() > 1 ? std::to_string(r.attempts.size()) : "");
  section.body += facts.done();
  return section;
}

Section slowest_section(const RunResult& r) {
  Section section{"slowest", "Slowest answers", {}};
  std::vector<const AnswerRow*> rows;
  for (const AnswerRow& answer : r.answers)
    if (answer.prompt_index >= 0 && std::cmp_less(answer.prompt_index, r.prompts.size())) rows.push_back(&answer);
  const auto length = [](const AnswerRow* a) { return positive(a->t_finished - a->t_queued); };
  const std::size_t shown = std::min(rows.size(), kSlowest);
  std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(shown), std::ranges::greater{}, length);
  HtmlTable table({"prompt", "whole", "first token", "prompt tokens", "answer tokens", "tokens/s", "its beginning"}, 1,
                  true);
  for (std::size_t i = 0; i < shown; ++i) {
    const AnswerRow& a = *rows[i];
    const PromptRow& prompt = r.prompts[static_cast<std::size_t>(a.prompt_index)];
    const double making = positive(a.t_finished - a.t_first_token);
    const double more = a.token_ids.empty() ? 0 : static_cast<double>(a.token_ids.size() - 1);
    table.row({html("{}{}", outside_text(prompt.id, kIdLetters),
                    a.sample_index > 0 ? fmt::format(" #{}", a.sample_index) : ""),
               html("{:.3f} s", length(rows[i])), html("{:.3f} s", positive(a.t_first_token - a.t_queued)),
               html("{}", prompt.token_ids.size()), html("{}", a.token_ids.size()),
               making > 0 ? html("{:.1f}", more / making) : Html(),
               outside_text(what_was_asked(prompt), kTextLetters)});
  }
  section.body = table.empty() ? note("There are no answers yet.") : table.done();
  if (!table.empty())
    section.body += note("Seconds after the sample was ready to be scheduled, waiting for its turn included.");
  return section;
}

Section errors_section(const RunResult& r) {
  Section section{"errors", "Errors and warnings", {}};
  HtmlTable table({"prompt", "status", "why"}, 3);
  std::size_t count = 0;
  for (const PromptRow& prompt : r.prompts)
    if ((prompt.status == PromptStatus::failed || prompt.status == PromptStatus::skipped) && ++count <= kMostErrors)
      table.row({outside_text(prompt.id, kIdLetters), html("{}", name_of(prompt.status)),
                 outside_text(prompt.error, kErrorLetters)});
  section.body = table.empty() ? note("No prompt failed or was skipped.") : table.done();
  if (count > kMostErrors)
    section.body += note(fmt::format("{} more; tpinfer show --errors lists all.", format_count(count - kMostErrors)));
  if (r.events.empty()) return section;
  HtmlTable events({"time", "rank", "level", "message"}, 4);
  for (const EventRow& e : r.events) {
    if (static_cast<std::size_t>(&e - r.events.data()) == kMostEvents) break;
    events.row({html("{:.1f} s", positive(e.time)), html("{}", e.rank), html("{}", shortened(e.level, 20)),
                outside_text(e.message, kErrorLetters)});
  }
  section.body += html("<h3>Messages of the run</h3>\n{}", events.done());
  if (r.events.size() > kMostEvents)
    section.body += note(fmt::format("{} more are in /events.", r.events.size() - kMostEvents));
  return section;
}

namespace {

Html rank_table(const RunResult& r) {
  HtmlTable table({"rank", "host", "replica", "device", "cores", "NUMA node"}, 6);
  for (const RankRow& rank : r.ranks) {
    if (static_cast<std::size_t>(&rank - r.ranks.data()) == kMostRanks) break;
    const std::string device = fmt::format("{} {}{}", rank.device_kind, rank.device_name,
                                           rank.device_pci.empty() ? "" : " at " + rank.device_pci);
    table.row({std::to_string(rank.rank), shortened(rank.host, 60), std::to_string(rank.replica), shortened(device, 80),
               shortened(rank.cpu_list, 40), rank.numa_node < 0 ? "" : std::to_string(rank.numa_node)});
  }
  return table.done();
}

Html attempt_table(const RunResult& r) {
  HtmlTable table({"attempt", "start", "end", "reason", "prompts done"}, 4);
  for (std::size_t i = r.attempts.size() - std::min(r.attempts.size(), kMostAttempts); i < r.attempts.size(); ++i) {
    const AttemptRow& a = r.attempts[i];
    table.row({std::to_string(i), shortened(a.start, 30), shortened(a.end, 30), shortened(a.reason, 100),
               std::to_string(a.prompts_done)});
  }
  return table.done();
}

std::string clipped(const std::string& text) {
  return text.size() <= kJobBytes ? text : text.substr(0, kJobBytes) + "\n… (tpinfer keeps the rest in /job)";
}

}  // namespace

Section environment_section(const RunResult& r) {
  Section section{"environment", "Environment", {}};
  Facts facts;
  facts.add("tpinfer", fmt::format("{} (commit {})", r.tpinfer_version, r.git_commit));
  facts.add("host", r.hostname);
  facts.add("command", r.command);
  facts.add("kernels",
            fmt::format("{}, numeric version {}, reproducible {}", r.kernel_set, r.numeric_version, r.reproducible));
  facts.add("plan", r.plan_digest);
  facts.add("MPI", r.mpi_library);
  facts.add("HDF5", r.hdf5_version);
  facts.add("CUDA driver", r.cuda_driver);
  facts.add("NCCL", r.nccl_version);
  facts.add("Slurm job", r.slurm_job_id);
  facts.add("model",
            fmt::format("{} layers, {} heads, {} KV heads of {}, vocabulary of {}", r.layers, r.heads, r.kv_heads,
                        r.head_dim, format_count(static_cast<std::uint64_t>(std::max<std::int64_t>(r.vocab_size, 0)))));
  facts.add("run", r.run_id);
  section.body = facts.done();
  if (!r.ranks.empty())
    section.body += folded(fmt::format("{} rank{}", r.ranks.size(), r.ranks.size() == 1 ? "" : "s"), rank_table(r));
  if (!r.attempts.empty())
    section.body +=
        folded(fmt::format("{} attempt{}", r.attempts.size(), r.attempts.size() == 1 ? "" : "s"), attempt_table(r));
  if (!r.job_resolved.empty())
    section.body += folded("The job as resolved", html("<pre tabindex=\"0\">{}</pre>\n", clipped(r.job_resolved)));
  return section;
}

}  // namespace tpinfer
