#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tpinfer {

enum class ProgressStyle { automatic, bar, lines, none };

/// How far the prompts of a job are.
struct PromptProgress {
  std::int64_t ended = 0, all = 0;
  bool more = false;  ///< all are those that are known; others may come
  std::int64_t failed = 0;
  std::int64_t ended_now = 0;  ///< of these, in this attempt: what earlier ones did says nothing about its rate
  std::int64_t left = 0;       ///< that have not ended
  std::uint64_t tokens = 0;    ///< of answers, in this attempt
  double seconds = 0;          ///< since it began
  double kv_share = -1;        ///< of the cache that is in use; < 0: not known

  double share() const;
  /// "1850/5000 prompts | 2211 tok/s | 00:14:02 elapsed | ETA 00:23:50 | kv 71% | failed 3"
  std::string text() const;
  /// "1850/5000 | 2211 tok/s | ETA 00:23:50 | kv 71% | failed 3", where there is little room
  std::string short_text() const;
};

/// Progress of one phase on stderr: a bar on a terminal; in a file a line at the start, every 30 s and each 5 %.
class Progress {
 public:
  explicit Progress(ProgressStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` in [0, 1]; `text` without the percentage.
  void show(double share, const std::string& text);
  void show(const PromptProgress& prompts);
  /// Takes a bar off the screen so that something else can be written there; the next show() draws it again.
  void clear();
  /// Ends a bar's line.
  void close();

 private:
  bool due(double share);
  void draw(const std::string& bar);

  ProgressStyle style_;
  std::chrono::steady_clock::time_point last_;
  int last_step_ = -1;
  bool open_ = false;
};

/// A bar with its percentage and text in at most `columns` cells: the bar gets shorter first, then goes, then the text
/// is cut.
std::string bar_line(int percent, const std::string& text, std::size_t columns);
/// Likewise; the short text where the other one leaves no room for a bar.
std::string bar_line(const PromptProgress& prompts, std::size_t columns);

}  // namespace tpinfer
