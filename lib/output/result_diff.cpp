#include "output/result_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>

#include "core/error.hpp"
#include "output/job_differences.hpp"
#include "output/result_names.hpp"

namespace tpinfer {
namespace {

using Place = std::int64_t;
constexpr std::size_t kExcerpt = 60;  // bytes of a text that are shown

std::span<const AnswerRow> answers_of(const RunResult& r, std::size_t prompt) {
  const auto found =
      std::ranges::equal_range(r.answers, static_cast<std::int64_t>(prompt), {}, &AnswerRow::prompt_index);
  return {found.begin(), found.end()};
}

std::unordered_map<std::string, std::size_t> prompts_by_id(const RunResult& r, const std::string& name) {
  std::unordered_map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < r.prompts.size(); ++i)
    if (!rows.emplace(r.prompts[i].id, i).second)
      fail_input("{}: two prompts have the id '{}', so rows cannot be told apart", name, r.prompts[i].id);
  return rows;
}

// Where two lists part; nothing when they are equal.
template <class T, class Same>
std::optional<std::size_t> first_difference(std::span<const T> a, std::span<const T> b, const Same& same) {
  const auto [x, y] = std::ranges::mismatch(a, b, same);
  if (x == a.end() && y == b.end()) return std::nullopt;
  return static_cast<std::size_t>(x - a.begin());
}

template <class T>
std::string value_at(std::span<const T> list, std::size_t at) {
  return at < list.size() ? fmt::format("{}", list[at]) : "(none)";
}

// Bytes from `at` on, back to where its character begins.
std::string excerpt(const std::string& text, std::size_t at) {
  const auto inside = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  while (at > 0 && inside(at)) --at;
  std::size_t end = std::min(text.size(), at + kExcerpt);
  while (inside(end)) ++end;
  return at >= text.size() ? "(end)" : text.substr(at, end - at);
}

// Entries of a row's k best that are some: a file's k is the largest that any of its prompts asked for.
std::size_t used_width(std::span<const std::int32_t> ids, std::size_t width) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) used = std::max(used, i % width + 1);
  return used;
}

template <class T>
std::vector<T> narrowed(std::span<const T> table, std::size_t width, std::size_t used) {
  std::vector<T> out;
  for (std::size_t row = 0; width > 0 && row + width <= table.size(); row += width)
    out.insert(out.end(), table.begin() + static_cast<std::ptrdiff_t>(row),
               table.begin() + static_cast<std::ptrdiff_t>(row + used));
  return out;
}

class Comparison {
 public:
  Comparison(const RunResult& a, const RunResult& b, const DiffOptions& options) : a_(a), b_(b), options_(options) {}

  ResultDiff run(const std::string& name_a, const std::string& name_b) {
    take_notes();
    const auto rows_a = prompts_by_id(a_, name_a);
    const auto rows_b = prompts_by_id(b_, name_b);
    for (std::size_t i = 0; i < a_.prompts.size(); ++i) {
      id_ = a_.prompts[i].id;
      sample_ = -1;
      if (const auto found = rows_b.find(id_); found != rows_b.end())
        compare(i, found->second);
      else if (!options_.common_only)
        note(DiffKind::only_in_a, -1, "a prompt", "");
    }
    for (const PromptRow& prompt : b_.prompts) {
      if (options_.common_only || rows_a.contains(prompt.id)) continue;
      id_ = prompt.id;
      sample_ = -1;
      note(DiffKind::only_in_b, -1, "", "a prompt");
    }
    if (!diff_.same())
      for (const std::string& key : job_differences(a_.job_resolved, b_.job_resolved))
        diff_.notes.push_back("the jobs differ in " + key);
    return std::move(diff_);
  }

 private:
  void take_notes() {
    const auto differ = [&](const char* what, const auto& x, const auto& y) {
      if (x != y) diff_.notes.push_back(fmt::format("{} differs: {} | {}", what, x, y));
    };
    differ("the architecture", a_.architecture, b_.architecture);
    differ("the number of parameters", a_.parameters, b_.parameters);
    if (a_.config_json != b_.config_json && a_.architecture == b_.architecture)
      diff_.notes.push_back(fmt::format("the models' config.json differ: {} | {}", a_.model_path, b_.model_path));
    differ("the compute type", a_.dtype_compute, b_.dtype_compute);
    differ("the kernel set", a_.kernel_set, b_.kernel_set);
    differ("the numeric version", a_.numeric_version, b_.numeric_version);
    differ("the mode of reproducibility", a_.reproducible, b_.reproducible);
    for (const auto* r : {&a_, &b_})
      if (r->state != RunState::complete)
        diff_.notes.push_back(fmt::format("{} is {}", r == &a_ ? "the first" : "the second", name_of(r->state)));
  }

  void note(DiffKind kind, Place position, std::string a, std::string b) {
    ++diff_.counts[static_cast<std::size_t>(kind)];
    if (diff_.first.size() < options_.most_listed)
      diff_.first.push_back({kind, id_, sample_, position, std::move(a), std::move(b)});
  }

  // With a tolerance one NaN is as good as another.
  static bool same_within(double x, double y, double tolerance) {
    if (std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y)) return true;
    return tolerance > 0 && (std::abs(x - y) <= tolerance || (std::isnan(x) && std::isnan(y)));
  }

  void measure(double x, double y) {
    if (std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(x) && std::isnan(y))) return;
    const double size = std::abs(x - y);
    diff_.largest_logprob_difference =
        std::max(diff_.largest_logprob_difference, std::isnan(size) ? std::numeric_limits<double>::infinity() : size);
  }

  std::optional<std::size_t> compare_ids(DiffKind kind, std::span<const std::int32_t> x,
                                         std::span<const std::int32_t> y, std::size_t width = 1) {
    const auto at = first_difference(x, y, std::equal_to<>());
    if (at) note(kind, static_cast<Place>(*at / width), value_at(x, *at), value_at(y, *at));
    return at;
  }

  // `comparable`: entries that belong to the same tokens; only these are measured.
  void compare_logprobs(DiffKind kind, std::span<const float> x, std::span<const float> y, std::size_t comparable,
                        std::size_t width = 1) {
    for (std::size_t i = 0; i < std::min({x.size(), y.size(), comparable}); ++i) measure(x[i], y[i]);
    const auto at = first_difference(x, y, [&](float p, float q) { return same_within(p, q, options_.tolerance); });
    if (at) note(kind, static_cast<Place>(*at / width), value_at(x, *at), value_at(y, *at));
  }

  void compare_text(DiffKind kind, const std::string& x, const std::string& y) {
    const auto at = first_difference(std::span(x), std::span(y), std::equal_to<>());
    if (at) note(kind, static_cast<Place>(*at), excerpt(x, *at), excerpt(y, *at));
  }

  // The k best of each token: ids, then log probabilities; both in rows of the file's k.
  struct Best {
    std::span<const std::int32_t> ids;
    std::span<const float> logprobs;
    std::size_t width;
  };
  void compare_best(DiffKind ids, DiffKind logprobs, const Best& x, const Best& y, std::size_t tokens) {
    const std::size_t used_x = used_width(x.ids, x.width), used_y = used_width(y.ids, y.width);
    if (used_x != used_y) {
      note(ids, -1, fmt::format("{} a token", used_x), fmt::format("{} a token", used_y));
      return;
    }
    if (used_x == 0) return;
    const auto ids_x = narrowed(x.ids, x.width, used_x), ids_y = narrowed(y.ids, y.width, used_y);
    const auto at = compare_ids(ids, ids_x, ids_y, used_x);
    compare_logprobs(logprobs, narrowed(x.logprobs, x.width, used_x), narrowed(y.logprobs, y.width, used_y),
                     std::min(tokens * used_x, at.value_or(ids_x.size())), used_x);
  }

  void compare(std::size_t index_a, std::size_t index_b) {
    const PromptRow &x = a_.prompts[index_a], &y = b_.prompts[index_b];
    if (options_.common_only && (x.status == PromptStatus::pending || y.status == PromptStatus::pending)) return;
    ++diff_.prompts;
    if (x.status != y.status) note(DiffKind::status, -1, name_of(x.status), name_of(y.status));
    compare_text(DiffKind::error, x.error, y.error);
    compare_prompt(x, y);
    const auto answers_a = answers_of(a_, index_a), answers_b = answers_of(b_, index_b);
    std::map<std::int32_t, std::pair<const AnswerRow*, const AnswerRow*>> samples;
    for (const AnswerRow& answer : answers_a) samples[answer.sample_index].first = &answer;
    for (const AnswerRow& answer : answers_b) samples[answer.sample_index].second = &answer;
    for (const auto& [sample, rows] : samples) {
      sample_ = sample;
      if (rows.second == nullptr)
        note(DiffKind::only_in_a, -1, "an answer", "");
      else if (rows.first == nullptr)
        note(DiffKind::only_in_b, -1, "", "an answer");
      else
        compare_answers(*rows.first, *rows.second);
    }
  }

  void compare_prompt(const PromptRow& x, const PromptRow& y) {
    const auto parted = compare_ids(DiffKind::prompt, x.token_ids, y.token_ids);
    if (!parted) compare_text(DiffKind::prompt, x.text, y.text);
    const std::size_t tokens = parted.value_or(x.token_ids.size());
    compare_logprobs(DiffKind::prompt_logprobs, x.prompt_logprobs, y.prompt_logprobs, tokens);
    compare_best(DiffKind::prompt_top_ids, DiffKind::prompt_top_logprobs,
                 {x.prompt_top_ids, x.prompt_top_logprobs, static_cast<std::size_t>(x.prompt_top_k)},
                 {y.prompt_top_ids, y.prompt_top_logprobs, static_cast<std::size_t>(y.prompt_top_k)}, tokens);
  }

  void compare_answers(const AnswerRow& x, const AnswerRow& y) {
    ++diff_.answers;
    diff_.tokens += x.token_ids.size();
    const auto parted = compare_ids(DiffKind::token_ids, x.token_ids, y.token_ids);
    const std::size_t tokens = parted.value_or(x.token_ids.size());
    compare_logprobs(DiffKind::logprobs, x.logprobs, y.logprobs, tokens);
    // where other tokens were chosen, the best ones are still those of the same distribution
    compare_best(DiffKind::top_ids, DiffKind::top_logprobs,
                 {x.top_ids, x.top_logprobs, static_cast<std::size_t>(x.top_k)},
                 {y.top_ids, y.top_logprobs, static_cast<std::size_t>(y.top_k)}, tokens + (parted ? 1 : 0));
    const double room = options_.tolerance * static_cast<double>(x.token_ids.size());
    if (!same_within(x.cumulative_logprob, y.cumulative_logprob, room))
      note(DiffKind::cumulative_logprob, -1, fmt::format("{}", x.cumulative_logprob),
           fmt::format("{}", y.cumulative_logprob));
    if (x.finish_reason != y.finish_reason)
      note(DiffKind::finish_reason, -1, name_of(x.finish_reason), name_of(y.finish_reason));
    compare_text(DiffKind::text, x.text, y.text);
  }

  const RunResult& a_;
  const RunResult& b_;
  const DiffOptions& options_;
  ResultDiff diff_;
  std::string id_;
  std::int32_t sample_ = -1;
};

}  // namespace

bool ResultDiff::same() const {
  return std::ranges::all_of(counts, [](std::size_t n) { return n == 0; });
}

ResultDiff diff_results(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                        const DiffOptions& options) {
  return Comparison(a, b, options).run(name_a, name_b);
}

}  // namespace tpinfer
