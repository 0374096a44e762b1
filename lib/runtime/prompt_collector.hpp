#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/log.hpp"
#include "prompts/prompt_stream.hpp"
#include "runtime/prompt_encoder.hpp"

namespace tpinfer {

/// A prompt with the place of its record, for messages.
struct PlacedPrompt {
  EncodedPrompt prompt;
  std::size_t file = 0;
  std::int64_t number = 0;
};

/// Takes encoded prompts in the order of the files: numbers them, refuses ids that stand there already, counts what is
/// to be told.
class PromptCollector {
 public:
  /// `stream` must stay; it names places.
  explicit PromptCollector(const PromptStream& stream) : stream_(stream) {}

  /// Sets the request's prompt_index and lets equal parameters be one object. `earlier`: the rows of all prompts that
  /// were taken before. Error(input) where one of these has the same id: resuming and seeds go by ids.
  void take(PlacedPrompt& placed, const std::vector<PromptRow>& earlier);
  /// After the last one: what the user should know of the prompts as a whole.
  void tell(const PromptsJob& job, const Log& log) const;

  /// Frees the memory of the ids and places; take() must not be called any more.
  void forget() noexcept;

  /// A text could not be encoded.
  bool lacks_tokenizer() const noexcept { return lacks_tokenizer_; }

 private:
  void know_id(const std::string& id, const std::vector<PromptRow>& earlier);
  void grow(const std::vector<PromptRow>& earlier);
  void share(std::shared_ptr<const SamplingParams>& params);
  std::string place(std::size_t row) const { return stream_.place(places_[row].first, places_[row].second); }

  const PromptStream& stream_;
  std::vector<std::pair<std::size_t, std::int64_t>> places_;  ///< [prompts] file and line
  std::vector<std::uint32_t> slots_;  ///< open hash table of ids: row + 1; 0: free. At most half of it is used
  std::unordered_map<std::uint64_t, std::shared_ptr<const SamplingParams>> known_;  ///< by hash
  std::shared_ptr<const SamplingParams> last_;
  bool lacks_tokenizer_ = false;
  std::size_t texts_ = 0, cut_ = 0, twice_ = 0;
};

}  // namespace tpinfer
