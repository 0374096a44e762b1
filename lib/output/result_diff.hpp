#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

/// What two results can differ in; times, ranks, attempts and the like never count.
enum class DiffKind : std::uint8_t {
  only_in_a,  ///< a prompt, or an answer of a prompt that both have
  only_in_b,
  status,
  error,
  prompt,  ///< text or token ids of the prompt as the model saw it
  prompt_logprobs,
  prompt_top_ids,
  prompt_top_logprobs,
  token_ids,
  logprobs,
  top_ids,
  top_logprobs,
  cumulative_logprob,
  finish_reason,
  text,
};
inline constexpr std::array<const char*, 15> kDiffKindNames{
    "only_in_a",          "only_in_b",           "status",    "error",    "prompt",  "prompt_logprobs",
    "prompt_top_ids",     "prompt_top_logprobs", "token_ids", "logprobs", "top_ids", "top_logprobs",
    "cumulative_logprob", "finish_reason",       "text"};

inline const char* name_of(DiffKind kind) { return kDiffKindNames.at(static_cast<std::size_t>(kind)); }

/// The first place where a row differs in one kind.
struct Difference {
  DiffKind kind = DiffKind::status;
  std::string id;              ///< of the prompt
  std::int32_t sample = -1;    ///< -1: the prompt itself
  std::int64_t position = -1;  ///< token (byte of a text) where they part; -1: no place
  std::string a, b;            ///< both values there; of a text some bytes from the place on
};

struct DiffOptions {
  double tolerance = 0;      ///< log probabilities may differ by this much (the sum: times the tokens); 0: bit by bit
  bool common_only = false;  ///< leave out prompts that only one file has, or has not finished
  std::size_t most_listed = 10;  ///< differences kept in ResultDiff::first
};

struct ResultDiff {
  std::array<std::size_t, kDiffKindNames.size()> counts{};  ///< rows that differ, by kind
  std::vector<Difference> first;                            ///< in order of a's rows, then those that b alone has
  std::vector<std::string> notes;  ///< what the runs have not in common, of itself no difference: model, kernels, job
  std::size_t prompts = 0;         ///< compared: both have them
  std::size_t answers = 0;
  std::size_t tokens = 0;  ///< of a's compared answers
  /// Of log probabilities of the same tokens after the same tokens; infinite where just one is a number.
  double largest_logprob_difference = 0;

  bool same() const;
};

/// Compares rows with the same prompt id and sample number. `name_a`, `name_b` are for complaints: Error(input) when a
/// result has two prompts of one id.
ResultDiff diff_results(const RunResult& a, const std::string& name_a, const RunResult& b, const std::string& name_b,
                        const DiffOptions& options = {});

}  // namespace tpinfer
