#include "runtime/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/logit_rules.hpp"
#include "runtime/row_loops.hpp"

namespace tpinfer {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
/// The k highest of a row are kept in a heap up to this k.
constexpr std::size_t kMostInHeap = 1024;

bool better(std::span<const float> logits, std::int32_t a, std::int32_t b) {
  const float x = logits[static_cast<std::size_t>(a)];
  const float y = logits[static_cast<std::size_t>(b)];
  return x > y || (x == y && a < b);
}

// Calls take(id) for every id from `first` on whose logit is above limit(), in ascending order; most blocks of a row
// have none.
template <class Limit, class Take>
void each_above(std::span<const float> row, std::size_t first, const Limit& limit, const Take& take) {
  for (std::size_t i = first; i < row.size(); i += kBlockOfRow) {
    const std::size_t end = std::min(row.size(), i + kBlockOfRow);
    if (end - i == kBlockOfRow && !any_above(row.data() + i, limit())) continue;
    for (std::size_t id = i; id < end; ++id)
      if (row[id] > limit()) take(id);
  }
}

// The k-th highest of a row, 0 < k < its size.
float kth_highest(std::span<const float> row, std::size_t k, std::vector<float>& memory) {
  if (k > kMostInHeap) {
    memory.assign(row.begin(), row.end());
    const auto kth = memory.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::ranges::nth_element(memory, kth, std::greater<>());
    return *kth;
  }
  memory.assign(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(k));
  std::ranges::make_heap(memory, std::greater<>());  // the lowest of the best so far in front
  each_above(
      row, k, [&] { return memory.front(); },
      [&](std::size_t id) {
        std::ranges::pop_heap(memory, std::greater<>());
        memory.back() = row[id];
        std::ranges::push_heap(memory, std::greater<>());
      });
  return memory.front();
}

float scaled(float logit, double temperature) { return static_cast<float>(static_cast<double>(logit) / temperature); }

// top_k as Hugging Face: everything below the k-th highest scaled logit goes (ties with it stay). Into the
// distribution: ids, and scaled logits below the best one's. Only what may be among the best is scaled: logits apart by
// more than rounding stay apart.
void take_top_k(SamplingScratch& scratch, float best, const DrawRules& rules) {
  const std::vector<float>& logits = scratch.logits;
  const float kth = kth_highest(logits, static_cast<std::size_t>(rules.top_k), scratch.heap);
  const float least = scaled(kth, rules.temperature);
  const double top = static_cast<double>(scaled(best, rules.temperature));
  const double rounding = 1e-6 * std::abs(static_cast<double>(kth)) + 1e-37 * rules.temperature;
  const float below = std::nextafter(static_cast<float>(static_cast<double>(kth) - rounding), kMinusInfinity);
  Distribution& d = scratch.distribution;
  each_above(
      logits, 0, [&] { return below; },
      [&](std::size_t id) {
        const float value = scaled(logits[id], rules.temperature);
        if (value < least || value == kMinusInfinity) return;
        d.ids.push_back(static_cast<std::int32_t>(id));
        d.probabilities.push_back(static_cast<double>(value) - top);
      });
}

// The same with every id that is not banned.
void take_all(SamplingScratch& scratch, float best, const DrawRules& rules) {
  std::vector<float>& logits = scratch.logits;
  if (rules.temperature != 1.0) divide_row(logits, rules.temperature);
  const double top = static_cast<double>(scaled(best, rules.temperature));
  Distribution& d = scratch.distribution;
  d.ids.resize(logits.size());
  d.probabilities.resize(logits.size());
  std::size_t kept = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    d.ids[kept] = static_cast<std::int32_t>(id);
    d.probabilities[kept] = static_cast<double>(logits[id]) - top;
    kept += logits[id] == kMinusInfinity ? 0 : 1;
  }
  d.ids.resize(kept);
  d.probabilities.resize(kept);
}

// Keeps the entries for which keep(number, probability) and scales them to a sum of 1.
template <class Keep>
void keep_only(Distribution& d, const Keep& keep) {
  double sum = 0;
  std::size_t out = 0;
  for (std::size_t i = 0; i < d.ids.size(); ++i) {
    const double p = d.probabilities[i];
    if (!keep(i, p)) continue;
    d.ids[out] = d.ids[i];
    d.probabilities[out++] = p;
    sum += p;
  }
  d.ids.resize(out);
  d.probabilities.resize(out);
  divide_all(d.probabilities, sum);
}

/// Probabilities by magnitude: 32 buckets for each power of two down to 2^-127, all smaller ones in the first.
constexpr std::size_t kBuckets = 128 * 32;
std::size_t bucket_of(double probability) {
  constexpr std::int64_t kFirst = (1023 - 127) * 32;
  const auto place = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(probability) >> 47) - kFirst;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(place, 0, kBuckets - 1));
}

// top_p as Hugging Face: from the most probable down (equal ones in ascending id) ids stay until they hold top_p
// together; the best always stays. Whole buckets are passed over by their sums, and the one in which top_p is reached
// is halved again and again, so that nothing is sorted.
void keep_top_p(SamplingScratch& scratch, double top_p) {
  if (top_p >= 1.0) return;
  Distribution& d = scratch.distribution;
  const std::vector<double>& p = d.probabilities;
  std::vector<double>& sums = scratch.sums;
  sums.assign(kBuckets, 0.0);
  for (const double probability : p) sums[bucket_of(probability)] += probability;
  double held = 0;
  std::size_t bucket = kBuckets - 1;
  for (; bucket > 0 && (sums[bucket] == 0.0 || held + sums[bucket] < top_p); --bucket) held += sums[bucket];
  std::vector<std::uint32_t>& order = scratch.order;
  order.clear();
  order.reserve(p.size());  // another row may have more in its bucket
  for (std::size_t i = 0; i < p.size(); ++i)
    if (bucket_of(p[i]) == bucket) order.push_back(static_cast<std::uint32_t>(i));
  if (order.empty()) return;  // what was passed over is all there is
  const auto before = [&](std::uint32_t a, std::uint32_t b) { return p[a] > p[b] || (p[a] == p[b] && a < b); };
  auto first = order.begin();
  for (auto last = order.end(); last - first > 1;) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, before);
    double half = 0;
    for (auto i = first; i != middle; ++i) half += p[*i];
    if (held + half >= top_p) {
      last = middle;
    } else {
      held += half;
      first = middle;
    }
  }
  const std::size_t last_kept = *first;
  const double least = p[last_kept];
  keep_only(d, [&](std::size_t i, double probability) {
    return probability > least || (probability == least && i <= last_kept);
  });
}

// min_p: ids whose probability is below min_p times the highest go.
void keep_min_p(SamplingScratch& scratch, double min_p) {
  if (min_p <= 0.0) return;
  Distribution& d = scratch.distribution;
  const double least = min_p * *std::ranges::max_element(d.probabilities);
  keep_only(d, [&](std::size_t, double probability) { return probability >= least; });
}

}  // namespace

RowStatistics row_statistics(std::span<const float> logits) {
  const RowMaximum best = row_maximum(logits);
  if (!best.finite) return {.log_normaliser = std::numeric_limits<double>::quiet_NaN(), .finite = false};
  return {.log_normaliser = static_cast<double>(best.value) + std::log(sum_of_exponentials(logits, best.value)),
          .finite = true};
}

void top_logprobs(std::span<const float> logits, const RowStatistics& row, std::int64_t k,
                  std::vector<TokenLogprob>& top) {
  const std::size_t count = std::min(static_cast<std::size_t>(std::max<std::int64_t>(k, 0)), logits.size());
  top.clear();
  if (count == 0) return;
  // a heap of the best so far, the worst of them in front; of equal logits the first to come stays
  const auto by_quality = [&](const TokenLogprob& a, const TokenLogprob& b) { return better(logits, a.id, b.id); };
  for (std::size_t id = 0; id < count; ++id) top.push_back({static_cast<std::int32_t>(id), 0.0F});
  std::ranges::make_heap(top, by_quality);
  each_above(
      logits, count, [&] { return logits[static_cast<std::size_t>(top.front().id)]; },
      [&](std::size_t id) {
        std::ranges::pop_heap(top, by_quality);
        top.back() = {static_cast<std::int32_t>(id), 0.0F};
        std::ranges::push_heap(top, by_quality);
      });
  std::ranges::sort(top, by_quality);
  for (TokenLogprob& entry : top) entry.logprob = logprob_of(logits, row, entry.id);
}

const Distribution& distribution_of(const DrawRules& rules, SamplingScratch& scratch) {
  const std::vector<float>& usable = scratch.logits;
  Distribution& d = scratch.distribution;
  d.ids.clear();
  d.probabilities.clear();
  const float best = row_maximum(usable).value;
  if (best == kMinusInfinity) return d;
  // a temperature so low that the scaled logits would overflow is as zero
  const double highest = static_cast<double>(best) / rules.temperature;
  if (rules.greedy || rules.temperature == 0 || !(std::abs(highest) <= std::numeric_limits<float>::max())) {
    d.ids.push_back(
        static_cast<std::int32_t>(std::ranges::find(usable, best) - usable.begin()));  // of equals the first
    d.probabilities.push_back(1.0);
    return d;
  }
  if (rules.top_k > 0 && rules.top_k < std::ssize(usable))
    take_top_k(scratch, best, rules);
  else
    take_all(scratch, best, rules);
  divide_all(d.probabilities, replace_by_exponentials(d.probabilities));
  keep_top_p(scratch, rules.top_p);
  keep_min_p(scratch, rules.min_p);
  return d;
}

const Distribution& next_token_distribution(std::span<const float> logits, const SamplingParams& params,
                                            const SampleContext& context, SamplingScratch& scratch) {
  scratch.logits.assign(logits.begin(), logits.end());
  apply_logit_rules(scratch.logits, params, context, scratch.order);
  return distribution_of(draw_rules(params), scratch);
}

std::int32_t draw_token(const Distribution& d, double u) {
  double cumulative = 0;
  std::int32_t last = -1;  // the probabilities may sum to a little less than u
  for (std::size_t i = 0; i < d.ids.size(); ++i) {
    if (d.probabilities[i] <= 0) continue;
    last = d.ids[i];
    cumulative += d.probabilities[i];
    if (u < cumulative) return last;
  }
  return last;
}

std::int32_t sample_token(std::span<const float> logits, const SamplingParams& params, const SampleContext& context,
                          SamplingScratch& scratch) {
  return draw_token(next_token_distribution(logits, params, context, scratch), context.draw);
}

}  // namespace tpinfer
