#include "app/cmd_show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>

#include "app/show_follow.hpp"
#include "app/show_stats.hpp"
#include "app/table.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "core/text_distance.hpp"
#include "core/units.hpp"
#include "output/answer_stats.hpp"
#include "output/result_names.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kPromptCells = 100;

/// The answers of a prompt; they lie together in the file's order.
std::span<const AnswerRow> answers_of(const RunResult& r, std::size_t prompt) {
  const auto index = static_cast<std::int64_t>(prompt);
  const auto found = std::ranges::equal_range(r.answers, index, {}, &AnswerRow::prompt_index);
  return {found.begin(), found.end()};
}

// ---- summary and answers ----

Json summary_json(const RunResult& r) {
  Json prompts = Json::object();
  for (std::size_t i = 0; i < kPromptStatusNames.size(); ++i)
    prompts[kPromptStatusNames[i]] = count_prompts(r, static_cast<PromptStatus>(i));
  return {{"state", name_of(r.state)},
          {"run_id", r.run_id},
          {"created", r.created},
          {"finished", r.finished},
          {"attempts", r.attempts.size()},
          {"model", r.model_path},
          {"architecture", r.architecture},
          {"family", r.family},
          {"parameters", r.parameters},
          {"dtype_stored", r.dtype_stored},
          {"dtype_compute", r.dtype_compute},
          {"world_size", r.world_size},
          {"kernel_set", r.kernel_set},
          {"reproducible", r.reproducible},
          {"prompts", prompts},
          {"answers", r.answers.size()},
          {"prompt_tokens", count_tokens(r.prompts)},
          {"answer_tokens", count_tokens(r.answers)},
          {"tokens_per_second", tokens_per_second(r)}};
}

std::string painted(RunState state, const Paint& paint) {
  return state == RunState::complete ? paint.good(name_of(state)) : paint.warning(name_of(state));
}

std::string painted(PromptStatus status, const Paint& paint) {
  if (status == PromptStatus::done) return name_of(status);
  return status == PromptStatus::failed ? paint.error(name_of(status)) : paint.warning(name_of(status));
}

// A journal has the prompts that have begun alone, but knows how many there are.
std::int64_t prompts_of(const RunResult& r, const std::optional<WritingJob>& job) {
  const auto known = static_cast<std::int64_t>(r.prompts.size());
  return job ? std::max(known, job->prompts) : known;
}

void print_summary(const ShowOptions& options, const RunResult& r) {
  const auto job = writing_job(options.file);
  std::string counts = fmt::format("{} of {} prompts done", count_prompts(r, PromptStatus::done), prompts_of(r, job));
  for (const auto status : {PromptStatus::failed, PromptStatus::skipped, PromptStatus::pending})
    if (const auto n = count_prompts(r, status); n > 0) counts += fmt::format(", {} {}", n, name_of(status));
  if (job && job->held) counts += ", a job is writing it (--follow)";
  fmt::print("{}: {}, {}\n", options.file.string(), painted(r.state, options.paint), counts);
  fmt::print("model   {}\n        {}, {} parameters, stored as {}, computed in {}\n", printable(r.model_path),
             r.architecture, format_count(r.parameters), r.dtype_stored, r.dtype_compute);
  fmt::print("ranks   {} (tensor parallel {}, data parallel {}), kernels {}, reproducible {}\n", r.world_size,
             r.tensor_parallel_size, r.data_parallel_size, r.kernel_set, r.reproducible);
  const std::string span = r.finished.empty() ? "since " + r.created : fmt::format("{} to {}", r.created, r.finished);
  fmt::print("run     {}, {} attempt{}\n", span, r.attempts.size(), r.attempts.size() == 1 ? "" : "s");
  fmt::print("tokens  {} of prompts, {} of answers, {:.1f} tokens/s\n", format_count(count_tokens(r.prompts)),
             format_count(count_tokens(r.answers)), tokens_per_second(r));
}

Json prompt_json(const RunResult& r, std::size_t index, bool whole) {
  const PromptRow& prompt = r.prompts[index];
  Json out{{"id", prompt.id}, {"status", name_of(prompt.status)}, {"prompt", prompt.text}};
  if (!prompt.error.empty()) out["error"] = prompt.error;
  if (whole) out["prompt_token_ids"] = prompt.token_ids;
  if (Json::accept(prompt.meta)) out["meta"] = Json::parse(prompt.meta);
  out["answers"] = Json::array();
  for (const auto& answer : answers_of(r, index)) {
    Json row{{"sample_index", answer.sample_index},
             {"text", answer.text},
             {"finish_reason", name_of(answer.finish_reason)},
             {"n_tokens", answer.token_ids.size()},
             {"cumulative_logprob", answer.cumulative_logprob}};
    if (whole) {
      row["token_ids"] = answer.token_ids;
      row["logprobs"] = answer.logprobs;
      row["t_queued"] = answer.t_queued;
      row["t_first_token"] = answer.t_first_token;
      row["t_finished"] = answer.t_finished;
    }
    out["answers"].push_back(std::move(row));
  }
  return out;
}

std::string shown_prompt(const PromptRow& prompt, bool whole) {
  if (prompt.text.empty() && !prompt.token_ids.empty()) return fmt::format("({} token ids)", prompt.token_ids.size());
  return whole ? printable(prompt.text) : one_line(prompt.text, kPromptCells);
}

void print_prompt(const RunResult& r, std::size_t index, bool whole, const Paint& paint) {
  const PromptRow& prompt = r.prompts[index];
  const auto answers = answers_of(r, index);
  const auto shown = shown_prompt(prompt, whole);
  fmt::print("\n[{}]{}{}\n", printable(prompt.id), shown.empty() ? "" : " ", shown);
  for (const auto& answer : answers) {
    const auto sample = answers.size() > 1 ? fmt::format(", sample {}", answer.sample_index) : "";
    fmt::print("{}\n-- {}, {} tokens{}", printable(answer.text), name_of(answer.finish_reason), answer.token_ids.size(),
               sample);
    if (whole)
      fmt::print(", log probability {:.4f}, {:.3f} s after queueing", answer.cumulative_logprob,
                 answer.t_finished - answer.t_queued);
    fmt::print("\n");
  }
  if (answers.empty())
    fmt::print("-- {}{}{}\n", painted(prompt.status, paint), prompt.error.empty() ? "" : ": ", printable(prompt.error));
}

std::size_t find_prompt(const RunResult& r, const ShowOptions& options) {
  const auto found = std::ranges::find(r.prompts, options.id, &PromptRow::id);
  if (found != r.prompts.end()) return static_cast<std::size_t>(found - r.prompts.begin());
  std::vector<std::string> ids;
  for (const auto& prompt : r.prompts) ids.push_back(prompt.id);
  const auto near = nearest_word(options.id, ids);
  throw Error(ExitCode::usage, fmt::format("{} has no prompt with the id '{}'", options.file.string(), options.id),
              near.empty() ? "tpinfer show FILE lists the ids" : fmt::format("is '{}' meant?", near));
}

// ---- memory ----

Json memory_json(const RunResult& r) {
  Json ranks = Json::array();
  for (std::size_t i = 0; i < r.ranks.size(); ++i) {
    const auto& rank = r.ranks[i];
    Json classes = Json::object(), phases = Json::object(), predicted = Json::object();
    for (std::size_t c = 0; c < r.weight_classes.size(); ++c)
      classes[r.weight_classes[c]] = {{"planned", rank.weights.planned_by_class[c]},
                                      {"touched", rank.weights.touched_by_class[c]},
                                      {"read", rank.weights.read_by_class[c]},
                                      {"owned", rank.weights.owned_by_class[c]}};
    for (std::size_t p = 0; p < rank.memory.size(); ++p)
      phases[kMemoryPhases[p]] = {{"anonymous", rank.memory[p].anonymous}, {"file_backed", rank.memory[p].file_backed},
                                  {"shared", rank.memory[p].shared},       {"rss", rank.memory[p].rss},
                                  {"rss_peak", rank.memory[p].rss_peak},   {"device_used", rank.memory[p].device_used}};
    if (i < r.memory_planned.size())
      for (std::size_t c = 0; c < r.memory_classes.size(); ++c) predicted[r.memory_classes[c]] = r.memory_planned[i][c];
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.host},
                     {"planned", rank.weights.bytes_planned},
                     {"touched", rank.weights.bytes_touched},
                     {"read", rank.weights.bytes_read},
                     {"owned", rank.weights.bytes_owned},
                     {"rss_peak", peak_of(rank, &RankRow::Memory::rss_peak)},
                     {"anonymous_peak", peak_of(rank, &RankRow::Memory::anonymous)},
                     {"by_class", classes},
                     {"phases", phases},
                     {"predicted", predicted}});
  }
  return ranks;
}

void print_memory(const RunResult& r) {
  Table measured({"rank", "planned", "touched", "read", "owned", "RSS peak", "anonymous peak"});
  RankRow::Weights sum;
  for (const auto& rank : r.ranks) {
    const auto& w = rank.weights;
    sum.bytes_planned += w.bytes_planned;
    sum.bytes_touched += w.bytes_touched;
    sum.bytes_read += w.bytes_read;
    sum.bytes_owned += w.bytes_owned;
    measured.row({rank_label(rank), format_bytes(w.bytes_planned), format_bytes(w.bytes_touched),
                  format_bytes(w.bytes_read), format_bytes(w.bytes_owned),
                  format_bytes(peak_of(rank, &RankRow::Memory::rss_peak)),
                  format_bytes(peak_of(rank, &RankRow::Memory::anonymous))});
  }
  measured.row({"all", format_bytes(sum.bytes_planned), format_bytes(sum.bytes_touched), format_bytes(sum.bytes_read),
                format_bytes(sum.bytes_owned), "", ""});
  fmt::print("Weights and memory of each rank, measured\n{}", measured.text());

  std::vector<std::string> head{"rank"};
  head.insert(head.end(), r.memory_classes.begin(), r.memory_classes.end());
  head.emplace_back("all");
  Table predicted(head);
  for (std::size_t i = 0; i < r.memory_planned.size(); ++i) {
    std::vector<std::string> cells{std::to_string(i)};
    for (const auto bytes : r.memory_planned[i]) cells.push_back(format_bytes(bytes));
    cells.push_back(
        format_bytes(std::accumulate(r.memory_planned[i].begin(), r.memory_planned[i].end(), std::uint64_t{0})));
    predicted.row(std::move(cells));
  }
  fmt::print("\nPredicted before loading\n{}", predicted.text());
}

// ---- plan ----

/// The slices of each tensor; Error(input) for a slice of none.
std::vector<std::vector<const PlanSliceRow*>> slices_by_tensor(const RunResult& r) {
  std::vector<std::vector<const PlanSliceRow*>> lists(r.plan_tensors.size());
  for (const auto& slice : r.plan_slices) {
    if (slice.tensor < 0 || std::cmp_greater_equal(slice.tensor, lists.size()))
      fail_input("/plan/slices/tensor: {} is no row of the {} tensors", slice.tensor, lists.size());
    lists[static_cast<std::size_t>(slice.tensor)].push_back(&slice);
  }
  return lists;
}

Json plan_json(const RunResult& r) {
  Json tensors = Json::array();
  const auto slices = slices_by_tensor(r);
  for (std::size_t t = 0; t < r.plan_tensors.size(); ++t) {
    const auto& tensor = r.plan_tensors[t];
    Json list = Json::array();
    for (const auto* slice : slices[t])
      list.push_back({{"rank", slice->rank},
                      {"axis", slice->axis},
                      {"start", slice->start},
                      {"count", slice->count},
                      {"bytes", slice->bytes}});
    tensors.push_back({{"name", tensor.name},
                       {"role", tensor.role},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"split", tensor.split},
                       {"slices", list}});
  }
  return tensors;
}

void print_plan(const RunResult& r) {
  const auto slices = slices_by_tensor(r);
  fmt::print("Tensors and what each rank holds: start+count along the axis that is cut (plan {})\n", r.plan_digest);
  for (std::size_t t = 0; t < r.plan_tensors.size(); ++t) {
    const auto& tensor = r.plan_tensors[t];
    fmt::print("{}  {} [{}]  {}, {}\n", printable(tensor.name), tensor.dtype, fmt::join(tensor.shape, ", "),
               tensor.role, tensor.split);
    std::map<std::int32_t, std::pair<std::string, std::uint64_t>> ranks;
    for (const auto* slice : slices[t]) {
      auto& [runs, bytes] = ranks[slice->rank];
      runs += runs.empty() ? "" : ",";
      runs += slice->axis < 0 ? "whole" : fmt::format("{}+{}", slice->start, slice->count);
      bytes += slice->bytes;
    }
    for (const auto& [rank, held] : ranks)
      fmt::print("    rank {}: {} ({})\n", rank, held.first, format_bytes(held.second));
  }
}

// ---- errors and statistics ----

Json errors_json(const RunResult& r) {
  Json list = Json::array();
  for (const auto& prompt : r.prompts)
    if (prompt.status != PromptStatus::done)
      list.push_back({{"id", prompt.id}, {"status", name_of(prompt.status)}, {"error", prompt.error}});
  return list;
}

void print_errors(const RunResult& r, const Paint& paint) {
  fmt::print("{} of {} prompts done\n", count_prompts(r, PromptStatus::done), r.prompts.size());
  for (const auto& prompt : r.prompts)
    if (prompt.status != PromptStatus::done)
      fmt::print("[{}] {}{}{}\n", printable(prompt.id), painted(prompt.status, paint), prompt.error.empty() ? "" : ": ",
                 printable(prompt.error));
}

Json show_json(const ShowOptions& options, const RunResult& r) {
  Json out{{"file", options.file.string()}};
  if (options.memory) out["memory"] = memory_json(r);
  if (options.plan) out["plan"] = plan_json(r);
  if (options.errors) out["errors"] = errors_json(r);
  if (options.stats) out["stats"] = stats_json(r);
  if (!options.id.empty()) out["prompts"].push_back(prompt_json(r, find_prompt(r, options), true));
  if (out.size() > 1) return out;
  out["summary"] = summary_json(r);
  out["prompts"] = Json::array();
  for (std::size_t i = 0; i < r.prompts.size(); ++i) out["prompts"].push_back(prompt_json(r, i, false));
  return out;
}

void print_parts(const ShowOptions& options, const RunResult& r) {
  const char* gap = "";
  const auto part = [&](bool wanted, auto print) {
    if (!wanted) return;
    fmt::print("{}", std::exchange(gap, "\n"));
    print(r);
  };
  part(options.memory, print_memory);
  part(options.plan, print_plan);
  part(options.errors, [&](const RunResult& result) { print_errors(result, options.paint); });
  part(options.stats, print_stats);
  if (!options.id.empty()) print_prompt(r, find_prompt(r, options), true, options.paint);
  if (*gap || !options.id.empty()) return;
  print_summary(options, r);
  if (options.follow) return;
  for (std::size_t i = 0; i < r.prompts.size(); ++i) print_prompt(r, i, false, options.paint);
}

}  // namespace

int run_show(const ShowOptions& options) {
  if (options.follow) follow_job(options.file);
  std::vector<std::string> damage;
  const RunResult result = read_answers(options.file, &damage);
  for (const std::string& sentence : damage)
    fmt::print(stderr, "tpinfer: {} {}\n", options.error_paint.warning("warning:"), sentence);
  if (options.json)
    fmt::print("{}\n", show_json(options, result).dump(1, ' ', false, Json::error_handler_t::replace));
  else
    print_parts(options, result);
  if (std::fflush(stdout) != 0)
    throw Error(ExitCode::output, "standard output cannot be written", "make room where it goes");
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
