#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "runtime/sampler.hpp"

namespace tpinfer::test {

/// The distribution of the next token, written down from Hugging Face's logits processors (presence and frequency
/// penalties from vLLM's) as plainly as can be: every rule asks every id. Shares no code with the sampler.
class PlainSampling {
 public:
  PlainSampling(std::span<const float> logits, const SamplingParams& params, const SampleContext& context)
      : scores_(logits.begin(), logits.end()), params_(params), context_(context) {
    apply_penalties();
    ban();
    const auto best = std::ranges::max_element(scores_);
    if (*best == kBanned) return;
    if (!params.do_sample || params.temperature == 0) {
      probabilities_[static_cast<std::int32_t>(best - scores_.begin())] = 1;
      return;
    }
    for (float& s : scores_) s = static_cast<float>(static_cast<double>(s) / params.temperature);
    top_k();
    for (std::size_t id = 0; id < scores_.size(); ++id)
      if (scores_[id] != kBanned)
        probabilities_[static_cast<std::int32_t>(id)] = std::exp(static_cast<long double>(scores_[id]) - maximum());
    normalise();
    top_p();
    min_p();
  }

  /// By id; ids that may not come are absent.
  const std::map<std::int32_t, long double>& probabilities() const { return probabilities_; }
  /// How near the nearest id was to the limit of top_p or min_p: rounding may move those over it.
  long double margin() const { return margin_; }

 private:
  static constexpr float kBanned = -std::numeric_limits<float>::infinity();

  float maximum() const { return *std::ranges::max_element(scores_); }

  void apply_penalties() {
    const auto tokens = context_.tokens;
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      float& score = scores_[i];
      if (params_.logit_bias.contains(id)) score += static_cast<float>(params_.logit_bias.at(id));
      if (std::ranges::count(tokens, id) > 0) {
        const auto penalty = static_cast<float>(params_.repetition_penalty);
        score = score < 0 ? score * penalty : score / penalty;
      }
      const auto count = std::ranges::count(tokens.subspan(static_cast<std::size_t>(context_.prompt_tokens)), id);
      score -= static_cast<float>(params_.frequency_penalty * static_cast<double>(count));
      if (count > 0) score -= static_cast<float>(params_.presence_penalty);
    }
  }

  void ban() {
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      std::vector<std::int32_t> text(context_.tokens.begin(), context_.tokens.end());
      text.push_back(static_cast<std::int32_t>(i));
      const bool early = static_cast<std::int64_t>(text.size()) - 1 - context_.prompt_tokens < params_.min_new_tokens &&
                         std::ranges::count(context_.eos_ids, text.back()) > 0;
      const bool unknown = !params_.allow_unknown_ids && i < context_.allowed_ids.size() && !context_.allowed_ids[i];
      if (early || unknown || repeats(text) || ends_with_bad_word(text)) scores_[i] = kBanned;
    }
  }

  // The last n tokens stood somewhere before.
  bool repeats(const std::vector<std::int32_t>& text) const {
    const auto n = static_cast<std::size_t>(params_.no_repeat_ngram_size);
    if (n == 0 || text.size() < n) return false;
    const std::vector<std::int32_t> last(text.end() - static_cast<std::ptrdiff_t>(n), text.end());
    return std::search(text.begin(), text.end() - 1, last.begin(), last.end()) != text.end() - 1;
  }

  bool ends_with_bad_word(const std::vector<std::int32_t>& text) const {
    return std::ranges::any_of(context_.bad_words, [&](const std::vector<std::int32_t>& word) {
      return !word.empty() && word.size() <= text.size() &&
             std::equal(word.begin(), word.end(), text.end() - static_cast<std::ptrdiff_t>(word.size()));
    });
  }

  void top_k() {
    if (params_.top_k == 0) return;
    std::vector<float> sorted = scores_;
    std::ranges::sort(sorted, std::greater<>());
    const float least = sorted[std::min(static_cast<std::size_t>(params_.top_k), sorted.size()) - 1];
    for (float& s : scores_)
      if (s < least) s = kBanned;
  }

  void normalise() {
    long double sum = 0;
    for (const auto& [id, p] : probabilities_) sum += p;
    for (auto& [id, p] : probabilities_) p /= sum;
  }

  void top_p() {
    if (params_.top_p >= 1) return;
    std::set<std::pair<long double, std::int32_t>> ascending;  // of equals the highest id goes first
    for (const auto& [id, p] : probabilities_) ascending.insert({p, -id});
    const long double room = 1.0L - static_cast<long double>(params_.top_p);
    long double cumulative = 0;
    for (const auto& [p, id] : ascending) {
      cumulative += p;
      if (&p == &ascending.rbegin()->first) break;  // the best one always stays
      margin_ = std::min(margin_, std::abs(cumulative - room));
      if (cumulative <= room) probabilities_.erase(-id);
    }
    normalise();
  }

  void min_p() {
    long double most = 0;
    for (const auto& [id, p] : probabilities_) most = std::max(most, p);
    const long double least = static_cast<long double>(params_.min_p) * most;
    std::erase_if(probabilities_, [&](const auto& entry) {
      if (entry.second < most) margin_ = std::min(margin_, std::abs(entry.second - least));
      return entry.second < least;
    });
    normalise();
  }

  std::vector<float> scores_;
  const SamplingParams& params_;
  const SampleContext& context_;
  std::map<std::int32_t, long double> probabilities_;
  long double margin_ = 1;
};

/// The value that a chi-square variable of `freedom` degrees exceeds with a probability of one in a million (Wilson and
/// Hilferty's approximation).
inline double chi_square_limit(std::size_t freedom) {
  const double n = static_cast<double>(freedom);
  const double t = 1 - 2 / (9 * n) + 4.7534 * std::sqrt(2 / (9 * n));
  return n * t * t * t;
}

/// Pearson's statistic of drawn ids against `probabilities`. Ids expected fewer than 5 times, and those not named, are
/// counted together.
struct ChiSquare {
  double statistic = 0;
  std::size_t freedom = 0;
};

template <class Draw>
ChiSquare chi_square(const std::map<std::int32_t, double>& probabilities, std::uint32_t draws, const Draw& draw) {
  std::map<std::int32_t, double> count;
  for (std::uint32_t i = 0; i < draws; ++i) count[draw(i)] += 1;
  ChiSquare result;
  double rest_expected = draws, rest_count = draws;
  for (const auto& [id, p] : probabilities) {
    const double expected = p * draws;
    if (expected < 5) continue;
    rest_expected -= expected;
    rest_count -= count[id];
    result.statistic += (count[id] - expected) * (count[id] - expected) / expected;
    ++result.freedom;
  }
  if (rest_expected >= 5)
    result.statistic += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
  else if (result.freedom > 0)
    --result.freedom;
  return result;
}

}  // namespace tpinfer::test
