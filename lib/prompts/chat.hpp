#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "core/json.hpp"
#include "job/job.hpp"
#include "text/chat_template.hpp"

namespace tpinfer {

/// A record's conversation: what a chat template is given. Members may be null.
struct ChatRecord {
  Json messages;
  Json tools;
  Json documents;
  Json variables;                            ///< chat_template_kwargs
  std::optional<std::string> template_name;  ///< of the model's named templates
};

/// Makes texts of conversations by the template that prompts.chat_template asks for. Any number of threads may render.
class ChatPrompts {
 public:
  /// `folder`: the tokenizer's. A template named by the job is read at once: Error(input) when it is missing or cannot
  /// be compiled. The model's own is read when the first conversation comes.
  ChatPrompts(const PromptsJob& job, const std::filesystem::path& folder);

  /// The text; Error(input), beginning with `where`: messages that are none, parts that are no text, no template, and
  /// what the template itself complains of.
  std::string render(ChatRecord&& record, const std::string& where) const;
  /// Also while others render: Error(input) when a conversation has come and the model's own template turned out to be
  /// broken.
  void check() const;

 private:
  const ChatTemplate* model_template() const;
  void load_model_template() const;

  const PromptsJob& job_;
  std::filesystem::path folder_;
  mutable std::once_flag once_;
  mutable std::atomic<bool> tried_ = false;  ///< after that the rest stays as it is
  mutable std::optional<ChatTemplate> template_;
  mutable std::string missing_;        ///< why there is none
  mutable std::exception_ptr broken_;  ///< it is there, but
};

}  // namespace tpinfer
