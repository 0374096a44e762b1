// The sampler against sampling.json of every trained model: exact distributions of Hugging Face's logits processors.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "checkpoint/safetensors_header.hpp"
#include "core/json.hpp"
#include "plain_sampling.hpp"

namespace tpinfer::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::vector<std::int32_t>>;

LogitBias bias_of(const Json& value) {
  LogitBias bias;
  for (const auto& [id, amount] : value.items()) bias[std::stoll(id)] = amount.get<double>();
  return bias;
}

SamplingParams params_of(const Json& set, std::vector<std::int32_t>& eos, Words& words) {
  SamplingParams params;
  params.do_sample = true;
  eos.clear();
  words.clear();
  for (const auto& [key, value] : set["params"].items()) {
    if (key == "temperature")
      params.temperature = value.get<double>();
    else if (key == "top_k")
      params.top_k = value.get<std::int64_t>();
    else if (key == "top_p")
      params.top_p = value.get<double>();
    else if (key == "min_new_tokens")
      params.min_new_tokens = value.get<std::int64_t>();
    else if (key == "min_p")
      params.min_p = value.get<double>();
    else if (key == "repetition_penalty")
      params.repetition_penalty = value.get<double>();
    else if (key == "presence_penalty")
      params.presence_penalty = value.get<double>();
    else if (key == "frequency_penalty")
      params.frequency_penalty = value.get<double>();
    else if (key == "no_repeat_ngram_size")
      params.no_repeat_ngram_size = value.get<std::int64_t>();
    else if (key == "bad_words_ids")
      words = value.get<Words>();
    else if (key == "logit_bias")
      params.logit_bias = bias_of(value);
    else if (key == "eos_token_id")
      eos = value.get<std::vector<std::int32_t>>();
    else
      ADD_FAILURE() << "unknown key " << key;
  }
  return params;
}

// Calls `look(set, logits, params, context)` for every set of every state in `folder`; returns their number.
template <class Look>
std::size_t each_set(const fs::path& folder, const Look& look) {
  const ModelFile file = open_model_file(folder / "sampling.safetensors");
  std::map<std::string, std::vector<float>> rows;
  for (const TensorInfo& tensor : read_safetensors_header(file, 0).tensors) {
    const std::string bytes = read_bytes(file, tensor.offset, tensor.bytes);
    rows[tensor.name].resize(bytes.size() / sizeof(float));
    std::memcpy(rows[tensor.name].data(), bytes.data(), bytes.size());
  }
  std::size_t sets = 0;
  std::vector<std::int32_t> eos;
  Words words;
  const Json golden = read_json_file(folder / "sampling.json");
  for (const Json& state : golden["states"]) {
    auto tokens = state["prompt_ids"].get<std::vector<std::int32_t>>();
    const auto prompt = static_cast<std::int64_t>(tokens.size());
    for (const Json& id : state["output_ids"]) tokens.push_back(id.get<std::int32_t>());
    for (const Json& set : state["sets"]) {
      SCOPED_TRACE(folder.filename().string() + ' ' + state["logits"].get<std::string>() + ' ' +
                   set["name"].get<std::string>());
      const SamplingParams params = params_of(set, eos, words);
      const SampleContext context{
          .eos_ids = eos, .allowed_ids = {}, .tokens = tokens, .prompt_tokens = prompt, .bad_words = words, .draw = {}};
      look(set, rows.at(state["logits"].get<std::string>()), params, context);
      ++sets;
    }
  }
  return sets;
}

// What both the sampler and the plain reference must give.
template <class Probabilities>
void expect_reference(const Json& set, const Probabilities& ours) {
  std::int64_t above_zero = 0;
  long double sum = 0;
  for (const auto& [id, p] : ours) {
    above_zero += p > 0;
    sum += p;
  }
  EXPECT_EQ(above_zero, set["nonzero"].get<std::int64_t>());
  EXPECT_NEAR(static_cast<double>(sum), 1.0, 1e-12);
  for (const Json& entry : set["probs"]) {
    const auto id = entry[0].get<std::int32_t>();
    ASSERT_TRUE(ours.contains(id)) << id;
    EXPECT_NEAR(static_cast<double>(ours.at(id)), entry[1].get<double>(), 1e-6) << id;
  }
  if (const auto zeros = set.find("zero_ids"); zeros != set.end()) {
    for (const Json& id : *zeros) EXPECT_FALSE(ours.contains(id.get<std::int32_t>())) << id;
  }
}

std::map<std::int32_t, double> as_map(const Distribution& d) {
  std::map<std::int32_t, double> map;
  for (std::size_t i = 0; i < d.ids.size(); ++i) map[d.ids[i]] = d.probabilities[i];
  EXPECT_TRUE(std::ranges::is_sorted(d.ids));
  EXPECT_EQ(map.size(), d.ids.size());
  return map;
}

std::vector<fs::path> folders_in(const fs::path& models) {
  std::vector<fs::path> folders;
  if (fs::is_directory(models))
    for (const auto& entry : fs::directory_iterator(models))
      if (fs::exists(entry.path() / "sampling.json")) folders.push_back(entry.path());
  return folders;
}

const fs::path kModels = TPINFER_TEST_DATA "/models";

TEST(SamplingGolden, DistributionsAreThoseOfHuggingFace) {
  const std::vector<fs::path> folders = folders_in(kModels);
  EXPECT_GE(folders.size(), 4U);
  for (const fs::path& folder : folders)
    EXPECT_EQ(each_set(folder,
                       [](const Json& set, const auto& logits, const auto& params, const auto& context) {
                         expect_reference(set, as_map(next_token_distribution(logits, params, context)));
                       }),
              42U);
}

TEST(SamplingGolden, SharedModelsToo) {
  const std::vector<fs::path> folders = folders_in(TPINFER_SHARED "/models");
  if (folders.empty()) GTEST_SKIP() << "no models in " TPINFER_SHARED;
  for (const fs::path& folder : folders)
    EXPECT_GT(each_set(folder,
                       [](const Json& set, const auto& logits, const auto& params, const auto& context) {
                         expect_reference(set, as_map(next_token_distribution(logits, params, context)));
                       }),
              0U);
}

// The yardstick of the property test is measured itself.
TEST(SamplingGolden, ThePlainReferenceIsRight) {
  for (const fs::path& folder : folders_in(kModels))
    each_set(folder, [](const Json& set, const auto& logits, const auto& params, const auto& context) {
      expect_reference(set, PlainSampling(logits, params, context).probabilities());
    });
}

// Draws, with fixed seeds, against Hugging Face's probabilities (not the sampler's own).
TEST(SamplingGolden, DrawsFollowHuggingFace) {
  constexpr std::uint32_t kDraws = 10000;
  std::size_t compared = 0;
  for (const fs::path& folder : folders_in(kModels))
    each_set(folder, [&](const Json& set, const auto& logits, const auto& params, const auto& context) {
      const Distribution d = next_token_distribution(logits, params, context);
      std::map<std::int32_t, double> expected;
      for (const Json& entry : set["probs"]) expected[entry[0].get<std::int32_t>()] = entry[1].get<double>();
      const ChiSquare found = chi_square(expected, kDraws, [&](std::uint32_t i) {
        return draw_token(d, {.seed = 11, .prompt = compared, .position = i});
      });
      const double limit = found.freedom == 0 ? 1e-9 : chi_square_limit(found.freedom);
      EXPECT_LT(found.statistic, limit) << found.freedom << " degrees of freedom";
      compared += found.freedom > 0;
    });
  EXPECT_GT(compared, 130U);
}

}  // namespace
}  // namespace tpinfer::test
