#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tpinfer {

enum class ProgressStyle { automatic, bar, lines, none };

/// Progress of one phase on stderr: a bar on a terminal; in a file a line at the start, every 30 s and each 5 %.
class Progress {
 public:
  explicit Progress(ProgressStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `share` in [0, 1]; `text` without the percentage.
  void show(double share, const std::string& text);
  /// Ends a bar's line.
  void close();

 private:
  bool due(double share);

  ProgressStyle style_;
  std::chrono::steady_clock::time_point last_;
  int last_step_ = -1;
  bool open_ = false;
};

}  // namespace tpinfer
