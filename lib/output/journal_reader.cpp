#include "output/journal_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <unordered_map>

#include "core/bytes.hpp"
#include "core/file_handle.hpp"
#include "output/journal_rows.hpp"
#include "output/journal_window.hpp"
#include "output/row_codec.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kMostAttempts = 1'000'000;

/// Takes the records one by one.
class Content {
 public:
  /// `sink`: null, or where the rows go.
  Content(JournalRows rows, const JournalSink* sink) : rows_(rows), sink_(sink) {}

  JournalContent content;
  bool has_head = false;
  std::uint64_t tokens = 0;       ///< of the last attempt's answers
  double seconds = 0;             ///< from its beginning to its last answer
  std::int64_t ended_before = 0;  ///< prompts that had ended then
  bool attempt_has_ended = false;

  /// Prompts that are done and that have failed.
  std::pair<std::int64_t, std::int64_t> count() const {
    std::pair<std::int64_t, std::int64_t> counts;
    for (const JournalPrompt& prompt : content.prompts)
      if (prompt.row.status == PromptStatus::failed)
        ++counts.second;
      else if (std::cmp_greater_equal(prompt.finished.size(), prompt.samples))
        ++counts.first;
    return counts;
  }

  /// Error(internal) for a payload that makes no sense.
  void take(JournalKind kind, std::span<const std::byte> payload) {
    ByteReader from(payload);
    if (sink_ && hand_over(kind, from)) return;
    switch (kind) {
      case JournalKind::head:
        content.head = get_journal_head(from);
        content.attempts = content.head.attempts_before;
        has_head = true;
        return;
      case JournalKind::attempt: return take_attempt(from);
      case JournalKind::end: return take_end(get_journal_attempt(from));
      case JournalKind::prompt: return take_prompt(from);
      case JournalKind::answer: return take_answer(from);
      case JournalKind::scores: return take_scores(from);
      case JournalKind::failed: return take_failed(from);
    }
    throw Error(ExitCode::internal, "it is of a kind that this version does not know");
  }

  JournalContent finish() {
    for (JournalPrompt& prompt : content.prompts) {
      std::ranges::sort(prompt.finished);
      if (prompt.row.status != PromptStatus::failed && std::cmp_greater_equal(prompt.finished.size(), prompt.samples))
        prompt.row.status = PromptStatus::done;
    }
    std::ranges::stable_sort(content.answers, {},
                             [](const AnswerRow& a) { return std::pair(a.prompt_index, a.sample_index); });
    return std::move(content);
  }

 private:
  // -> whether it was a row
  bool hand_over(JournalKind kind, ByteReader& from) const {
    switch (kind) {
      case JournalKind::answer: {
        const auto prompt = from.get<std::uint32_t>();
        sink_->answer(prompt, get_answer_row(from));
        return true;
      }
      case JournalKind::scores: {
        const auto prompt = from.get<std::uint32_t>();
        sink_->scores(prompt, get_scores(from));
        return true;
      }
      case JournalKind::prompt:
      case JournalKind::failed: return true;
      default: return false;
    }
  }

  void take_attempt(ByteReader& from) {
    const JournalAttempt attempt = get_journal_attempt(from);
    const auto index = static_cast<std::int64_t>(attempt.number) - content.head.attempts_before;
    if (index < 0 || index > kMostAttempts) throw Error(ExitCode::internal, "its attempt has an impossible number");
    content.job_prompts = attempt.prompts;
    if (attempt.number + 1 == content.attempts && std::cmp_less(index, content.about.attempts.size())) return;
    std::vector<AttemptRow> attempts = std::move(content.about.attempts);
    get_about(from, content.about);
    attempts.resize(std::max(attempts.size(), static_cast<std::size_t>(index) + 1));
    attempts[static_cast<std::size_t>(index)] = attempt.row;
    content.about.attempts = std::move(attempts);
    content.attempts = std::max(content.attempts, attempt.number + 1);
    const auto [done, failed] = count();
    ended_before = done + failed;
    tokens = 0;
    seconds = 0;
    attempt_has_ended = false;
  }

  void take_end(const JournalAttempt& attempt) {
    attempt_has_ended = true;
    if (!content.about.attempts.empty()) content.about.attempts.back() = attempt.row;
  }

  void take_prompt(ByteReader& from) {
    JournalPrompt prompt;
    prompt.number = from.get<std::uint32_t>();
    prompt.samples = from.get<std::int64_t>();
    prompt.row = get_prompt(from);
    if (rows_ != JournalRows::all) {
      prompt.row.text = prompt.row.meta = std::string();
      prompt.row.token_ids = std::vector<std::int32_t>();
    }
    const auto [at, fresh] = by_id_.emplace(prompt.row.id, content.prompts.size());
    const std::size_t index = at->second;
    by_number_[prompt.number] = index;
    content.next_prompt = std::max(content.next_prompt, prompt.number + 1);
    if (fresh) {
      content.prompts.push_back(std::move(prompt));
    } else if (content.prompts[index].row.content != prompt.row.content) {
      // it could not run before
      std::erase_if(content.answers, [&](const AnswerRow& a) { return std::cmp_equal(a.prompt_index, index); });
      content.prompts[index] = std::move(prompt);
    }
  }

  JournalPrompt& prompt_of(ByteReader& from) {
    const auto at = by_number_.find(from.get<std::uint32_t>());
    if (at == by_number_.end()) throw Error(ExitCode::internal, "the record of its prompt is damaged");
    return content.prompts[at->second];
  }

  void take_answer(ByteReader& from) {
    JournalPrompt& prompt = prompt_of(from);
    AnswerRow row = get_answer_row(from);
    if (row.finish_reason > FinishReason::error) throw Error(ExitCode::internal, "it ended for no known reason");
    if (std::ranges::find(prompt.finished, row.sample_index) != prompt.finished.end()) return;
    prompt.finished.push_back(row.sample_index);
    content.attempts = std::max(content.attempts, row.attempt + 1);
    tokens += row.token_ids.size();
    seconds = std::max(seconds, row.t_finished);
    if (rows_ == JournalRows::none) return;
    row.prompt_index = &prompt - content.prompts.data();
    content.answers.push_back(std::move(row));
  }

  void take_scores(ByteReader& from) {
    JournalPrompt& prompt = prompt_of(from);
    PromptRow scores = get_scores(from);
    prompt.scored = true;
    if (rows_ == JournalRows::none) return;
    prompt.row.prompt_logprobs = std::move(scores.prompt_logprobs);
    prompt.row.prompt_top_k = scores.prompt_top_k;
    prompt.row.prompt_top_ids = std::move(scores.prompt_top_ids);
    prompt.row.prompt_top_logprobs = std::move(scores.prompt_top_logprobs);
  }

  void take_failed(ByteReader& from) {
    JournalPrompt& prompt = prompt_of(from);
    prompt.row.error = from.get_string();
    prompt.row.status = PromptStatus::failed;
  }

  JournalRows rows_;
  const JournalSink* sink_;
  std::unordered_map<std::string, std::size_t> by_id_;
  std::unordered_map<std::uint32_t, std::size_t> by_number_;
};

void check_preamble(JournalWindow& file, const std::string& name, ExitCode code) {
  const auto version = journal_version(file.at(0, kJournalPreambleBytes));
  if (!version)
    throw Error(code, fmt::format("{}: it is no journal of tpinfer", name), "remove it or give another output.file");
  if (*version != kJournalVersion)
    throw Error(code,
                fmt::format("{}: it has version {}, this tpinfer reads version {}", name, *version, kJournalVersion),
                "use the tpinfer that wrote it, or begin anew with --overwrite");
}

/// Whether these are the first bytes of a journal, or what a file system leaves in place of bytes never written.
bool is_torn_preamble(std::span<const std::byte> bytes) {
  const auto whole = journal_preamble();
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }) ||
         (bytes.size() < whole.size() && std::ranges::equal(bytes, std::span(whole).first(bytes.size())));
}

/// A journal's records, taken as far as they go; more when there are more.
class Reading {
 public:
  Reading(int fd, const std::string& name, JournalRows rows, const JournalSink* sink, ExitCode code)
      : content(rows, sink), file_(fd, name, code), name_(name), code_(code) {}

  Content content;
  std::vector<std::string> damage;

  /// False while the file has not even a whole preamble.
  bool go_on() {
    if (end_ == 0) {
      if (is_torn_preamble(file_.at(0, kJournalPreambleBytes))) return false;
      check_preamble(file_, name_, code_);
      end_ = offset_ = kJournalPreambleBytes;
      first_ = first_bytes();
    }
    while (const auto record = next_journal_record(file_, offset_)) {
      offset_ = record->end;
      if (record->sound) take(*record);
    }
    offset_ = end_;  // what follows may be a record that was being written
    return true;
  }
  /// The file as it is now; false when it is no longer one that begins with what was read.
  bool look_again() {
    file_.look_again();
    return file_.size() >= end_ && first_bytes() == first_;
  }
  /// Of the last sound record.
  std::uint64_t end() const noexcept { return end_; }

 private:
  void take(const JournalRecord& record) {
    if (record.begin != end_) note(end_, record.begin, "");
    end_ = record.end;
    try {
      content.take(record.kind,
                   file_.at(record.begin + kJournalHeaderBytes, record.end - record.begin - kJournalHeaderBytes));
    } catch (const Error& e) {
      note(record.begin, record.end, fmt::format(" ({})", e.what()));
    }
  }
  void note(std::uint64_t begin, std::uint64_t end, std::string_view what) {
    damage.push_back(
        fmt::format("{}: bytes {} to {} are damaged{}: their answers are missing", name_, begin, end, what));
  }
  // with the header of the head, which has its hash
  std::uint64_t first_bytes() {
    return end_ == 0 ? 0 : hash_bytes(file_.at(0, kJournalPreambleBytes + kJournalHeaderBytes));
  }

  JournalWindow file_;
  std::string name_;
  ExitCode code_;
  std::uint64_t offset_ = 0, end_ = 0;
  std::uint64_t first_ = 0;
};

std::optional<JournalContent> read(int fd, const std::filesystem::path& path, JournalRows rows, const JournalSink* sink,
                                   ExitCode code) {
  const std::string name = path.string();
  Reading reading(fd, name, rows, sink, code);
  if (!reading.go_on()) return std::nullopt;
  if (!reading.content.has_head && reading.end() == kJournalPreambleBytes) return std::nullopt;
  if (!reading.content.has_head)
    throw Error(code, fmt::format("{}: its head is damaged, so that nobody can tell what its answers belong to", name),
                "begin anew with --overwrite");
  JournalContent out = reading.content.finish();
  out.end = reading.end();
  out.damage = std::move(reading.damage);
  return out;
}

}  // namespace

std::optional<JournalContent> read_journal(int fd, const std::filesystem::path& path, JournalRows rows, ExitCode code) {
  return read(fd, path, rows, nullptr, code);
}

std::optional<JournalContent> read_journal(int fd, const std::filesystem::path& path, const JournalSink& sink,
                                           ExitCode code) {
  return read(fd, path, JournalRows::answers, &sink, code);
}

std::optional<JournalContent> read_journal(const std::filesystem::path& file, JournalRows rows, ExitCode code) {
  const FileHandle fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw Error(code, fmt::format("cannot read {}: {}", file.string(), system_message(errno)));
  return read_journal(fd.get(), file, rows, code);
}

struct JournalFollower::State {
  FileHandle fd;
  Reading reading;
};

JournalFollower::JournalFollower(std::filesystem::path file) : file_(std::move(file)) {}
JournalFollower::~JournalFollower() = default;

bool JournalFollower::look() {
  struct stat there {};
  struct stat mine {};
  if (::stat(file_.c_str(), &there) != 0) {
    if (errno == ENOENT) return false;
    throw Error(ExitCode::input, fmt::format("cannot read {}: {}", file_.string(), system_message(errno)));
  }
  const bool same = state_ && ::fstat(state_->fd.get(), &mine) == 0 && mine.st_ino == there.st_ino &&
                    mine.st_dev == there.st_dev && state_->reading.look_again();
  if (!same) {
    FileHandle fd(::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ENOENT) return false;
    if (!fd) throw Error(ExitCode::input, fmt::format("cannot read {}: {}", file_.string(), system_message(errno)));
    const int number = fd.get();
    state_ = std::make_unique<State>(
        State{std::move(fd), Reading(number, file_.string(), JournalRows::none, nullptr, ExitCode::input)});
  }
  Reading& reading = state_->reading;
  reading.go_on();
  const Content& content = reading.content;
  std::tie(progress_.done, progress_.failed) = content.count();
  progress_.ended_before = content.ended_before;
  progress_.prompts = content.content.job_prompts;
  progress_.tokens = content.tokens;
  progress_.seconds = content.seconds;
  progress_.attempt_has_ended = content.attempt_has_ended;
  progress_.base = content.content.head.base;
  return true;
}

bool JournalFollower::held() const {
  if (!state_) return false;
  struct flock whole {};
  whole.l_type = F_RDLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(state_->fd.get(), F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

RunResult to_result(JournalContent content) {
  RunResult result = std::move(content.about);
  result.state = RunState::partial;
  result.run_id = content.head.run_id;
  result.created = content.head.created;
  result.numeric_version = content.head.identity.numeric_version;
  result.kernel_set = content.head.identity.kernel_set;
  result.dtype_compute = content.head.identity.dtype;
  result.model_files = std::move(content.head.identity.files);
  if (!result.attempts.empty()) result.finished = result.attempts.back().end;
  for (JournalPrompt& prompt : content.prompts) result.prompts.push_back(std::move(prompt.row));
  result.answers = std::move(content.answers);
  return result;
}

}  // namespace tpinfer
