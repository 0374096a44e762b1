#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "job/job.hpp"
#include "prompts/byte_source.hpp"
#include "prompts/chat.hpp"
#include "prompts/prompt_record.hpp"
#include "prompts/selection.hpp"

namespace tpinfer {

class PromptFile;

/// A record as the file has it, cut out but not read yet.
struct RawPrompt {
  std::shared_ptr<const PromptFile> file;
  std::size_t file_index = 0;
  std::int64_t number = 0;              ///< line where it begins, or row, from 1
  std::string text;                     ///< bytes of the record; of an HDF5 row its prompt
  std::string id;                       ///< of an HDF5 row
  std::vector<std::int64_t> token_ids;  ///< of an HDF5 row
  bool has_ids = false;
  std::string fault;  ///< why it cannot be read

  std::size_t bytes() const noexcept { return text.size() + token_ids.size() * sizeof(std::int64_t); }
};

/// What reading a record needs besides its bytes.
struct RecordTerms {
  const PromptsJob& job;
  const ChatPrompts& chat;
};

/// One prompt file. next() is called by one thread, read() by any number.
class PromptFile {
 public:
  explicit PromptFile(std::string name) : name_(std::move(name)) {}
  virtual ~PromptFile() = default;

  /// The next record; blank ones are left out. False at the end. Error(input) for a file that cannot be read.
  virtual bool next(RawPrompt& raw) = 0;
  /// Fills `record`, whose place is there already. Error for what makes this prompt fail.
  virtual void read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const = 0;

  /// For messages.
  const std::string& name() const noexcept { return name_; }
  /// What ids begin with where there are several files.
  std::string label;

 private:
  std::string name_;
};

/// Opens a file in the format asked for; automatic: HDF5 and CSV by extension or first bytes, JSONL by extension or
/// its first character, the lines of an OpenAI batch by the keys of the first, text otherwise.
std::shared_ptr<PromptFile> open_prompt_file(const std::string& path, const PromptsJob& job,
                                             const StopReading& stopped = {});
/// Whether it is HDF5, or would be taken for it: its library is for one thread at a time.
bool may_be_hdf5(const std::string& path, const PromptsJob& job);

/// The prompts of all files of a job, in their order, as far as prompts.select takes them.
class PromptStream {
 public:
  /// `job` and `chat` must stay. Error(input) for a pattern that matches nothing and a file that cannot be opened,
  /// Error(usage) for a wrong shard.
  PromptStream(const PromptsJob& job, const ChatPrompts& chat, StopReading stopped = {});

  /// The next record; one thread. False at the end. Error(input) for a file that is missing or cannot be read,
  /// ReadingStopped.
  bool next(RawPrompt& raw);
  /// Reads it; any thread. What is wrong with the record alone becomes its error.
  PromptRecord read(RawPrompt&& raw) const;
  /// Whether a file is HDF5.
  bool has_hdf5() const;
  /// FILE:LINE of a record.
  std::string place(std::size_t file_index, std::int64_t number) const;
  /// After the end: Error(input) when there was no prompt at all.
  void check_not_empty() const;

 private:
  RecordTerms terms_;
  StopReading stopped_;
  std::vector<std::string> files_;
  std::vector<std::string> labels_;
  Selection selection_;
  std::size_t opened_ = 0;
  std::shared_ptr<PromptFile> file_;
  std::int64_t taken_ = 0;
};

}  // namespace tpinfer
