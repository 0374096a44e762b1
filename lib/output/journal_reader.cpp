#include "output/journal_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "output/journal_rows.hpp"
#include "output/row_codec.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{1} << 20;
constexpr std::int64_t kMostAttempts = 1'000'000;

/// The file's bytes at any place, mostly read in order.
class Window {
 public:
  Window(int fd, std::string name, ExitCode code) : fd_(fd), name_(std::move(name)), code_(code) {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail(errno);
    size_ = static_cast<std::uint64_t>(info.st_size);
  }

  std::uint64_t size() const noexcept { return size_; }
  /// At most `count` bytes from `offset` on; fewer at the file's end.
  std::span<const std::byte> at(std::uint64_t offset, std::uint64_t count) {
    count = std::min(count, size_ - std::min(offset, size_));
    if (offset < begin_ || offset + count > begin_ + bytes_.size())
      load(offset, std::max<std::uint64_t>(count, kWindowBytes));
    const std::uint64_t from = std::min<std::uint64_t>(offset - begin_, bytes_.size());
    return std::span(bytes_).subspan(static_cast<std::size_t>(from),
                                     static_cast<std::size_t>(std::min(count, bytes_.size() - from)));
  }
  [[noreturn]] void fail(int number) const {
    throw Error(code_, fmt::format("cannot read {}: {}", name_, system_message(number)));
  }

 private:
  void load(std::uint64_t offset, std::uint64_t count) {
    bytes_.resize(static_cast<std::size_t>(std::min(count, size_ - offset)));
    begin_ = offset;
    std::size_t done = 0;
    while (done < bytes_.size()) {
      const ssize_t n = ::pread(fd_, bytes_.data() + done, bytes_.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(errno);
      if (n == 0) break;  // cut while it is read
      done += static_cast<std::size_t>(n);
    }
    bytes_.resize(done);
  }

  int fd_;
  std::string name_;
  ExitCode code_;
  std::uint64_t size_ = 0;
  std::uint64_t begin_ = 0;  ///< of bytes_ in the file
  std::vector<std::byte> bytes_;
};

struct Record {
  JournalKind kind{};
  std::uint64_t begin = 0, end = 0;  ///< in the file
  bool sound = false;
};

/// The record at `offset`; where there is none the next one, with all between skipped; nothing up to the file's end.
/// Linear in the file's size: each byte is looked at once for a header, and once inside a payload.
std::optional<Record> next_record(Window& file, std::uint64_t offset) {
  for (; offset + kJournalHeaderBytes <= file.size(); ++offset) {
    const auto bytes = file.at(offset, kJournalHeaderBytes);
    if (bytes.empty()) return std::nullopt;
    if (bytes[0] != kJournalMark[0]) continue;
    const auto header = parse_journal_header(bytes, offset);
    if (!header) continue;
    const std::uint64_t begin = offset + kJournalHeaderBytes;
    if (header->bytes > file.size() - begin) return std::nullopt;
    const auto payload = file.at(begin, header->bytes);
    const bool sound = payload.size() == header->bytes && journal_payload_hash(payload, offset) == header->hash;
    return Record{header->kind, offset, begin + header->bytes, sound};
  }
  return std::nullopt;
}

/// Takes the records one by one.
class Content {
 public:
  explicit Content(JournalRows rows) : rows_(rows) {}

  JournalContent content;
  bool has_head = false;

  /// Error(internal) for a payload that makes no sense.
  void take(JournalKind kind, std::span<const std::byte> payload) {
    ByteReader from(payload);
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
  void take_attempt(ByteReader& from) {
    const JournalAttempt attempt = get_journal_attempt(from);
    const auto index = static_cast<std::int64_t>(attempt.number) - content.head.attempts_before;
    if (index < 0 || index > kMostAttempts) throw Error(ExitCode::internal, "its attempt has an impossible number");
    std::vector<AttemptRow> attempts = std::move(content.about.attempts);
    get_about(from, content.about);
    attempts.resize(std::max(attempts.size(), static_cast<std::size_t>(index) + 1));
    attempts[static_cast<std::size_t>(index)] = attempt.row;
    content.about.attempts = std::move(attempts);
    content.job_prompts = attempt.prompts;
    content.attempts = std::max(content.attempts, attempt.number + 1);
  }

  void take_end(const JournalAttempt& attempt) {
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
  std::unordered_map<std::string, std::size_t> by_id_;
  std::unordered_map<std::uint32_t, std::size_t> by_number_;
};

void check_preamble(Window& file, const std::string& name, ExitCode code) {
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

}  // namespace

std::optional<JournalContent> read_journal(int fd, const std::filesystem::path& path, JournalRows rows, ExitCode code) {
  const std::string name = path.string();
  Window file(fd, name, code);
  if (is_torn_preamble(file.at(0, kJournalPreambleBytes))) return std::nullopt;
  check_preamble(file, name, code);
  Content content(rows);
  std::vector<std::string> damage;
  const auto note = [&](std::uint64_t begin, std::uint64_t end, std::string_view what) {
    damage.push_back(
        fmt::format("{}: bytes {} to {} are damaged{}: their answers are missing", name, begin, end, what));
  };
  std::uint64_t offset = kJournalPreambleBytes;
  std::uint64_t sound_end = offset;
  while (const auto record = next_record(file, offset)) {
    offset = record->end;
    if (!record->sound) continue;
    if (record->begin != sound_end) note(sound_end, record->begin, "");
    sound_end = record->end;
    try {
      content.take(record->kind,
                   file.at(record->begin + kJournalHeaderBytes, record->end - record->begin - kJournalHeaderBytes));
    } catch (const Error& e) {
      note(record->begin, record->end, fmt::format(" ({})", e.what()));
    }
  }
  if (!content.has_head && sound_end == kJournalPreambleBytes) return std::nullopt;
  if (!content.has_head)
    throw Error(code, fmt::format("{}: its head is damaged, so that nobody can tell what its answers belong to", name),
                "begin anew with --overwrite");
  JournalContent out = content.finish();
  out.end = sound_end;
  out.damage = std::move(damage);
  return out;
}

std::optional<JournalContent> read_journal(const std::filesystem::path& file, JournalRows rows, ExitCode code) {
  const FileHandle fd(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw Error(code, fmt::format("cannot read {}: {}", file.string(), system_message(errno)));
  return read_journal(fd.get(), file, rows, code);
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
