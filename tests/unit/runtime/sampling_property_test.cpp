// Every sampling parameter at odd values, all together, against the plain reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>

#include "plain_sampling.hpp"
#include "runtime/row_work.hpp"

namespace tpinfer::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A random question to the sampler; owns what the context points to.
class Question {
 public:
  explicit Question(std::mt19937_64& random) : random_(random) {
    const std::size_t vocab = 1 + below(40);
    const bool ties = below(3) == 0;
    for (std::size_t i = 0; i < vocab; ++i)
      logits.push_back(ties ? static_cast<float>(below(9)) * 0.5F - 2.0F
                            : std::normal_distribution<float>(0, 4)(random_));
    for (float& v : logits)
      if (below(12) == 0) v = -kInfinity;  // a masked row of the head is legal
    for (std::size_t i = below(30); i-- > 0;) tokens.push_back(id());
    for (std::size_t i = below(3); i-- > 0;) eos.push_back(id());
    for (std::size_t i = below(4); i-- > 0;) words.push_back(word());
    if (below(3) == 0)
      for (std::size_t i = 0; i < vocab; ++i) allowed.push_back(below(5) > 0);
    choose_params();
  }

  SampleContext context() const {
    return {.eos_ids = eos,
            .allowed_ids = allowed,
            .tokens = tokens,
            .prompt_tokens = prompt_,
            .bad_words = words,
            .draw = {.seed = 5, .prompt = 6, .sample = 7, .position = 8}};
  }

  std::string described(int round) const {
    return fmt::format(
        "question {}: T {}, k {}, p {}, min_p {}, repetition {}, presence {}, frequency {}, ngram {}, sample {}", round,
        params.temperature, params.top_k, params.top_p, params.min_p, params.repetition_penalty,
        params.presence_penalty, params.frequency_penalty, params.no_repeat_ngram_size, params.do_sample);
  }

  std::vector<float> logits;
  std::vector<std::int32_t> tokens, eos;
  std::vector<std::vector<std::int32_t>> words;
  std::vector<std::uint8_t> allowed;
  SamplingParams params;

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }
  std::int32_t id() { return static_cast<std::int32_t>(below(std::min<std::size_t>(logits.size(), 1 + below(40)))); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

  // Mostly an end of the text so far and one more, so that it matters; otherwise anything, or nothing.
  std::vector<std::int32_t> word() {
    std::vector<std::int32_t> ids;
    const std::size_t size = below(4);
    if (size <= tokens.size() && below(3) > 0)
      ids.assign(tokens.end() - static_cast<std::ptrdiff_t>(size), tokens.end());
    if (below(8) > 0) ids.push_back(id());
    return ids;
  }

  void choose_params() {
    const auto vocab = static_cast<std::int64_t>(logits.size());
    prompt_ = static_cast<std::int64_t>(below(tokens.size() + 1));
    params.do_sample = below(6) > 0;
    params.temperature = one_of({0.0, 1e-3, 0.1, 0.7, 1.0, 1.0, 1.3, 5.0, 100.0, 1e30});
    params.top_k = one_of<std::int64_t>({0, 0, 1, 2, 3, 5, vocab - 1, vocab, vocab + 5, std::int64_t{1} << 31});
    params.top_p = one_of({1e-6, 0.1, 0.5, 0.8, 0.95, 0.999999, 1.0, 1.0});
    params.min_p = one_of({0.0, 0.0, 1e-6, 0.05, 0.3, 0.999, 1.0});
    params.repetition_penalty = one_of({1e-2, 0.8, 1.0, 1.0, 1.3, 100.0});
    params.presence_penalty = one_of({-2.0, -0.5, 0.0, 0.0, 0.25, 1.5});
    params.frequency_penalty = one_of({-2.0, -0.25, 0.0, 0.0, 0.5, 2.0});
    params.no_repeat_ngram_size = one_of<std::int64_t>({0, 0, 1, 2, 3, 7, 29, 1000});
    params.min_new_tokens = one_of<std::int64_t>({0, 1, 5, 1000});
    params.allow_unknown_ids = below(4) == 0;
    for (std::size_t i = below(4); i-- > 0;)
      params.logit_bias[static_cast<std::int64_t>(below(45))] = one_of({-100.0, -1.0, 0.5, 3.0, 100.0});
  }

  std::mt19937_64& random_;
  std::int64_t prompt_ = 0;
};

TEST(SamplingProperty, AllParametersTogether) {
  std::mt19937_64 random(2024);
  int compared = 0, borderline = 0, several = 0, none = 0;
  for (int round = 0; round < 30000; ++round) {
    const Question q(random);
    SCOPED_TRACE(q.described(round));
    const SampleContext context = q.context();
    const PlainSampling plain(q.logits, q.params, context);
    const Distribution d = next_token_distribution(q.logits, q.params, context);
    if (plain.margin() < 1e-9L) {
      ++borderline;
      continue;
    }
    ++compared;
    none += d.ids.empty();
    several += d.ids.size() > 1;
    ASSERT_TRUE(std::ranges::is_sorted(d.ids));
    ASSERT_EQ(d.ids.size(), plain.probabilities().size());
    std::size_t i = 0;
    for (const auto& [id, p] : plain.probabilities()) {
      ASSERT_EQ(d.ids[i], id);
      ASSERT_NEAR(d.probabilities[i++], static_cast<double>(p), 1e-6) << id;
    }
    const std::int32_t drawn = sample_token(q.logits, q.params, context);
    ASSERT_EQ(drawn, draw_token(d, context.draw));
    if (drawn == -1) {
      ASSERT_TRUE(d.ids.empty());
    } else {
      ASSERT_GT(plain.probabilities().at(drawn), 0) << "drawn with probability zero";
    }
  }
  EXPECT_GT(compared, 25000);
  EXPECT_GT(several, 6000);
  EXPECT_GT(none, 100);
  EXPECT_LT(borderline, 3000);
}

// A wish tells another rank all that the row's task says: the same token, log probability and alternatives.
TEST(SamplingProperty, AWishIsTheTask) {
  std::mt19937_64 random(77);
  SamplingScratch scratch, other;
  std::vector<LogitEdit> edits;
  std::vector<std::uint32_t> memory;
  int drawn = 0, edited = 0;
  for (int round = 0; round < 20000; ++round) {
    const Question q(random);
    SCOPED_TRACE(q.described(round));
    RowTask task{.params = &q.params, .context = q.context(), .choose = round % 50 != 0, .top_k = round % 4};
    if (round % 10 == 0) task.given = static_cast<std::int32_t>(round) % static_cast<std::int32_t>(q.logits.size());
    if (edits.size() > 500) edits.clear();  // most rows have others' edits before theirs
    const RowWish wish = wish_of(task, std::ssize(q.logits), edits, memory);
    RowOutcome expected, found;
    do_row(task, q.logits, scratch, expected);
    do_wish(wish, edits, task.context.allowed_ids, q.logits, other, found);
    ASSERT_EQ(found.finite, expected.finite);
    ASSERT_EQ(found.token.id, expected.token.id);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found.token.logprob), std::bit_cast<std::uint32_t>(expected.token.logprob));
    ASSERT_EQ(found.top.size(), expected.top.size());
    for (std::size_t i = 0; i < found.top.size(); ++i) ASSERT_EQ(found.top[i].id, expected.top[i].id);
    drawn += expected.token.id >= 0 && wish.greedy == 0 && task.given < 0;
    edited += wish.edits > 0;
  }
  EXPECT_GT(drawn, 5000);
  EXPECT_GT(edited, 5000);
}

// Of equally probable ids at the limit of top_p the lowest stay, and what is dropped may be just 1 - top_p.
TEST(SamplingProperty, TiesAtTheLimits) {
  SamplingParams params;
  params.do_sample = true;
  const std::vector<float> four(4, 1.0F);
  const auto ids = [&](const std::vector<float>& logits) {
    return next_token_distribution(logits, params, SampleContext{}).ids;
  };
  using Ids = std::vector<std::int32_t>;
  params.top_p = 0.5;
  EXPECT_EQ(ids(four), (Ids{0, 1}));
  params.top_p = 0.51;
  EXPECT_EQ(ids(four), (Ids{0, 1, 2}));
  params.top_p = 1e-9;
  EXPECT_EQ(ids(four), (Ids{0}));
  params.top_p = 1;
  params.top_k = 2;
  EXPECT_EQ(ids(four), (Ids{0, 1, 2, 3})) << "ties with the k-th stay, as in Hugging Face";
  EXPECT_EQ(ids({1, 3, 2, 2, 0}), (Ids{1, 2, 3}));
  params.top_k = 0;
  params.min_p = 1;
  EXPECT_EQ(ids({1, 3, 2, 3, 0}), (Ids{1, 3})) << "as probable as the best is not below it";
}

// Values that float32 cannot hold end in a defined answer, never in NaN.
TEST(SamplingProperty, ParametersBeyondAllMeasure) {
  const std::vector<float> logits{-3.0F, 2.0F, -1.0F, 2.0F, 0.0F};
  const std::vector<std::int32_t> tokens{1, 2, 4, 0};
  std::mt19937_64 random(4);
  const auto pick = [&] {
    static constexpr double kValues[] = {0, 1, -1, 1e-300, 1e-40, 1e30, 1e39, 1e300, -1e39, -1e300, 1e-3};
    return kValues[random() % std::size(kValues)];
  };
  for (int round = 0; round < 20000; ++round) {
    SamplingParams params;
    params.do_sample = true;
    params.temperature = std::abs(pick());
    params.repetition_penalty = std::max(1e-300, std::abs(pick()));
    params.presence_penalty = pick();
    params.frequency_penalty = pick();
    params.logit_bias = {{1, pick()}, {3, pick()}, {4, pick()}};
    params.top_p = random() % 2 ? 1.0 : 0.7;
    params.min_p = random() % 2 ? 0.0 : 0.1;
    const SampleContext context{
        .eos_ids = {}, .allowed_ids = {}, .tokens = tokens, .prompt_tokens = 1, .bad_words = {}, .draw = {}};
    const Distribution d = next_token_distribution(logits, params, context);
    if (d.ids.empty()) continue;
    EXPECT_NEAR(std::accumulate(d.probabilities.begin(), d.probabilities.end(), 0.0), 1.0, 1e-12) << round;
    for (const double p : d.probabilities) EXPECT_TRUE(p >= 0 && p <= 1) << round;
    if (HasFailure()) return;
  }
}

TEST(SamplingProperty, ATemperatureNearZeroIsGreedy) {
  SamplingParams params;
  params.do_sample = true;
  for (const double temperature : {1e-310, 1e-300, 1e-40})
    for (const float shift : {0.0F, -30.0F, 30.0F}) {
      params.temperature = temperature;
      const std::vector<float> logits{1.0F + shift, 3.0F + shift, 2.5F + shift};
      EXPECT_EQ(sample_token(logits, params, {}), 1) << temperature << ' ' << shift;
    }
}

// The frequencies that are drawn are those of the plain reference: an id lost at the limit of top_p, top_k or min_p
// shows.
TEST(SamplingProperty, DrawsFollowThePlainReference) {
  const std::vector<float> logits{2.0F, -1.0F, 0.5F, 0.0F, 1.5F, -3.0F, 1.0F, 0.25F, -0.5F, 1.75F, -2.0F, 0.75F};
  std::vector<SamplingParams> all(6);
  for (SamplingParams& params : all) params.do_sample = true;
  all[1].top_p = 0.9;
  all[2].top_k = 5;
  all[3].min_p = 0.2;
  all[4].temperature = 2.5;
  all[5].temperature = 0.8;
  all[5].top_k = 9;
  all[5].top_p = 0.85;
  all[5].min_p = 0.05;
  std::uint64_t prompt = 0;
  for (const SamplingParams& params : all) {
    SCOPED_TRACE(++prompt);
    std::map<std::int32_t, double> expected;
    const SampleContext nothing;
    const PlainSampling plain(logits, params, nothing);
    for (const auto& [id, p] : plain.probabilities()) expected[id] = static_cast<double>(p);
    const ChiSquare found = chi_square(expected, 20000, [&](std::uint32_t i) {
      SampleContext context;
      context.draw = {.seed = 3, .prompt = prompt, .position = i};
      return sample_token(logits, params, context);
    });
    EXPECT_LT(found.statistic, chi_square_limit(found.freedom));
  }
}

}  // namespace
}  // namespace tpinfer::test
