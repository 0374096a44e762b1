#include "prompts/prompt_stream.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/error.hpp"
#include "prompts/byte_source.hpp"
#include "prompts/file_list.hpp"

namespace tpinfer {

PromptStream::PromptStream(const PromptsJob& job, const ChatPrompts& chat, StopReading stopped)
    : terms_{job, chat},
      stopped_(std::move(stopped)),
      files_(expand_prompt_files(job.files)),
      labels_(file_labels(files_)),
      selection_(job.select) {
  if (files_.empty()) throw Error(ExitCode::usage, "prompts.file: the list is empty", "name a prompt file");
  // a file that is missing shall not be found out after an hour of encoding
  for (const std::string& file : files_)
    if (file != "-" && ::access(file.c_str(), R_OK) != 0)
      fail_input("{}: cannot be opened: {}", file, system_message(errno));
}

bool PromptStream::next(RawPrompt& raw) {
  while (!selection_.is_over()) {
    if (stopped_ && stopped_()) throw ReadingStopped{};
    if (!file_) {
      if (opened_ == files_.size()) return false;
      file_ = open_prompt_file(files_[opened_], terms_.job, stopped_);
      if (files_.size() > 1) file_->label = labels_[opened_];
      ++opened_;
    }
    if (!file_->next(raw)) {
      file_.reset();
    } else if (selection_.take()) {
      raw.file = file_;
      raw.file_index = opened_ - 1;
      ++taken_;
      return true;
    }
  }
  return false;
}

PromptRecord PromptStream::read(RawPrompt&& raw) const {
  PromptRecord record;
  const std::string number = std::to_string(raw.number);
  const std::shared_ptr<const PromptFile> file = raw.file;
  record.id = file->label.empty() ? number : file->label + ":" + number;
  record.place = place(raw.file_index, raw.number);
  try {
    if (!raw.fault.empty()) fail_input("{}: {}", record.place, raw.fault);
    file->read(std::move(raw), terms_, record);
  } catch (const Error& e) {
    record.error = e.what();
  }
  return record;
}

bool PromptStream::has_hdf5() const {
  return std::ranges::any_of(files_, [&](const std::string& file) { return may_be_hdf5(file, terms_.job); });
}

std::string PromptStream::place(std::size_t file_index, std::int64_t number) const {
  return fmt::format("{}:{}", source_name(files_[file_index]), number);
}

void PromptStream::check_not_empty() const {
  if (taken_ > 0) return;
  throw Error(ExitCode::input, fmt::format("{}: no prompts", fmt::join(files_, ", ")),
              selection_.seen() > 0 ? "prompts.select leaves none of them"
                                    : "a text file has one prompt a line, JSONL one object a line");
}

}  // namespace tpinfer
