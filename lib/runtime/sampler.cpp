#include "runtime/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/logit_rules.hpp"

namespace tpinfer {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;

// exp(x) for x <= 0 to about 1e-7 relative, in plain arithmetic that is the same on every machine: 2^n times a
// polynomial (Cephes' expf).
inline float exp_negative(float x) noexcept {
  const float clamped = std::max(x, -87.0F);
  const float n = std::floor(clamped * 1.44269504F + 0.5F);
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < -87.0F ? 0.0F : p * scale;
}

// Highest logit of a row and whether all of it is usable (no NaN, no +infinity, something above -infinity).
std::pair<float, bool> row_maximum(std::span<const float> logits) {
  float best = kMinusInfinity;
  bool finite = true;
  for (const float v : logits) {
    finite = finite && v < std::numeric_limits<float>::infinity();  // false for NaN too
    best = std::max(best, v);
  }
  return {best, finite && best > kMinusInfinity};
}

bool better(std::span<const float> logits, std::int32_t a, std::int32_t b) {
  const float x = logits[static_cast<std::size_t>(a)];
  const float y = logits[static_cast<std::size_t>(b)];
  return x > y || (x == y && a < b);
}

std::int32_t best_id(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                   logits.begin());  // the first of equals
}

// top_k as Hugging Face: everything below the k-th highest logit goes (ties with it stay).
void keep_top_k(SamplingScratch& scratch, std::int64_t k) {
  std::vector<float>& logits = scratch.logits;
  if (k <= 0 || k >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<float>& sorted = scratch.sorted;
  sorted = logits;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const float least = sorted[static_cast<std::size_t>(k - 1)];
  for (float& v : logits)
    if (v < least) v = kMinusInfinity;
}

void softmax(const std::vector<float>& logits, Distribution& d) {
  d.ids.clear();
  d.probabilities.clear();
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kMinusInfinity) continue;
    d.ids.push_back(static_cast<std::int32_t>(id));
    d.probabilities.push_back(std::exp(static_cast<double>(logits[id]) - static_cast<double>(best)));
    sum += d.probabilities.back();
  }
  for (double& p : d.probabilities) p /= sum;
}

// Drops the entries that `keep` does not name and scales the rest to a sum of 1.
void keep_only(Distribution& d, const std::vector<std::uint8_t>& keep) {
  double sum = 0;
  std::size_t out = 0;
  for (std::size_t i = 0; i < d.ids.size(); ++i) {
    if (!keep[i]) continue;
    d.ids[out] = d.ids[i];
    d.probabilities[out] = d.probabilities[i];
    sum += d.probabilities[out++];
  }
  d.ids.resize(out);
  d.probabilities.resize(out);
  for (double& p : d.probabilities) p /= sum;
}

// top_p as Hugging Face: from the least probable up, ids go while their summed probability is at most 1 - top_p; the
// best always stays.
void keep_top_p(SamplingScratch& scratch, double top_p) {
  if (top_p >= 1.0) return;
  Distribution& d = scratch.distribution;
  std::vector<std::uint32_t>& order = scratch.order;
  order.resize(d.ids.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return d.probabilities[a] > d.probabilities[b] || (d.probabilities[a] == d.probabilities[b] && a < b);
  });
  std::vector<std::uint8_t>& keep = scratch.keep;
  keep.assign(d.ids.size(), 1);
  double dropped = 0;
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    dropped += d.probabilities[order[i]];
    if (dropped > 1.0 - top_p) break;
    keep[order[i]] = 0;
  }
  keep_only(d, keep);
}

// min_p: ids whose probability is below min_p times the highest go.
void keep_min_p(SamplingScratch& scratch, double min_p) {
  if (min_p <= 0.0) return;
  Distribution& d = scratch.distribution;
  const double least = min_p * *std::ranges::max_element(d.probabilities);
  std::vector<std::uint8_t>& keep = scratch.keep;
  keep.clear();
  for (const double p : d.probabilities) keep.push_back(p >= least ? 1 : 0);
  keep_only(d, keep);
}

}  // namespace

RowStatistics row_statistics(std::span<const float> logits) {
  const auto [best, finite] = row_maximum(logits);
  if (!finite) return {.log_normaliser = std::numeric_limits<double>::quiet_NaN(), .finite = false};
  std::array<double, kLanes> sums{};  // lane = id mod 16: one order whatever the vector width
  for (std::size_t i = 0; i < logits.size(); ++i)
    sums[i % kLanes] += static_cast<double>(exp_negative(logits[i] - best));
  double total = 0;
  for (const double s : sums) total += s;
  return {.log_normaliser = static_cast<double>(best) + std::log(total), .finite = true};
}

void top_logprobs(std::span<const float> logits, const RowStatistics& row, std::int64_t k,
                  std::vector<TokenLogprob>& top) {
  const std::size_t count = std::min(static_cast<std::size_t>(std::max<std::int64_t>(k, 0)), logits.size());
  top.clear();
  if (count == 0) return;
  // a heap of the best so far, the worst of them in front
  const auto by_quality = [&](const TokenLogprob& a, const TokenLogprob& b) { return better(logits, a.id, b.id); };
  for (std::int32_t id = 0; static_cast<std::size_t>(id) < logits.size(); ++id) {
    if (top.size() == count) {
      if (!better(logits, id, top.front().id)) continue;
      std::ranges::pop_heap(top, by_quality);
      top.pop_back();
    }
    top.push_back({id, 0.0F});
    std::ranges::push_heap(top, by_quality);
  }
  std::ranges::sort(top, by_quality);
  for (TokenLogprob& entry : top) entry.logprob = logprob_of(logits, row, entry.id);
}

const Distribution& next_token_distribution(std::span<const float> logits, const SamplingParams& params,
                                            const SampleContext& context, SamplingScratch& scratch) {
  std::vector<float>& usable = scratch.logits;
  Distribution& d = scratch.distribution;
  d.ids.clear();
  d.probabilities.clear();
  usable.assign(logits.begin(), logits.end());
  apply_logit_rules(usable, params, context);
  const std::int32_t best = best_id(usable);
  if (usable[static_cast<std::size_t>(best)] == kMinusInfinity) return d;
  // a temperature so low that the scaled logits would overflow is as zero
  const double scaled = static_cast<double>(usable[static_cast<std::size_t>(best)]) / params.temperature;
  if (!params.do_sample || params.temperature == 0 || !(std::abs(scaled) <= std::numeric_limits<float>::max())) {
    d.ids.push_back(best);
    d.probabilities.push_back(1.0);
    return d;
  }
  for (float& v : usable) v = static_cast<float>(static_cast<double>(v) / params.temperature);
  keep_top_k(scratch, params.top_k);
  softmax(usable, d);
  keep_top_p(scratch, params.top_p);
  keep_min_p(scratch, params.min_p);
  return d;
}

std::int32_t draw_token(const Distribution& d, const DrawKey& key) {
  const double u = uniform_draw(key);
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
