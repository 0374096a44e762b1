#pragma once

#include <string>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

/// What readers of the rows need to know of the run.
struct RunLabel {
  std::string run_id;
  std::string created;  ///< ISO 8601 UTC
  std::string model_path;
};

/// The prompts of a run in their order, each with its answers, of a result file or of what stands in its place. Memory
/// does not grow with their number.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const RunLabel& facts() const = 0;
  /// The next prompt and its answers in order of sample_index; false at the end. Error(input) where the file is
  /// unsound.
  virtual bool next(PromptRow& prompt, std::vector<AnswerRow>& answers) = 0;
};

}  // namespace tpinfer
