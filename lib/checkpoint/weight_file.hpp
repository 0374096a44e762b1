#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/mapped_file.hpp"
#include "checkpoint/mapping_guard.hpp"
#include "checkpoint/model_file.hpp"
#include "checkpoint/tensor_source.hpp"

namespace tpinfer {

/// How weights come into memory. `automatic`: mapped on local disks, read in large pieces on file systems of a network.
enum class ReadMode : std::uint8_t { automatic, mapped, read };

/// What a file of weights was like when the plan was made.
struct PlannedFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t header_hash = 0;
  std::optional<std::int64_t> modified = {};  ///< ns since 1970; absent: another host's clock, not to be compared
};

/// A file of weights that is being loaded. Everything here is Error(input) with the file's name when the file is not,
/// or is no longer, the one that was planned.
class WeightFile {
 public:
  /// Opens it; compares size, header and time of change with the plan's.
  WeightFile(const PlannedFile& planned, ReadMode mode);

  bool is_mapped() const noexcept { return mapped_; }
  const ModelFile& file() const noexcept { return file_; }
  /// Asks the kernel to have these bytes ready soon. Advice only.
  void will_need(std::uint64_t offset, std::uint64_t length) const noexcept;
  /// The bytes from `offset` on, for `tensor`.
  void read(std::uint64_t offset, std::span<std::byte> to, std::string_view tensor) const;
  /// Refuses the file when its size or time of change are not what they were when it was opened.
  void check_unchanged(std::string_view tensor) const;
  /// Says why a byte that was mapped could not be looked at.
  [[noreturn]] void fail_at(std::uint64_t offset, std::string_view tensor) const;

 private:
  void check_header(const PlannedFile& planned) const;
  [[noreturn]] void fail_short(std::uint64_t bytes, std::string_view tensor) const;

  ModelFile file_;
  bool mapped_ = true;
};

/// The stored bytes of one tensor, mapped or read piece by piece. A file that is cut or a disk that fails meanwhile is
/// no crash: the bytes are then zeros, and finish() tells. One at a time in a process.
class TensorReader final : public TensorSource {
 public:
  /// Bytes of a piece that is read; a mapping is handed out in such pieces too, the next one being fetched ahead.
  static constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;

  /// `staging`: memory that is reused from tensor to tensor.
  TensorReader(const WeightFile& file, std::string name, std::uint64_t offset, std::uint64_t bytes,
               std::vector<std::byte>& staging);

  bool is_mapped() const noexcept override { return file_.is_mapped(); }
  std::span<const std::byte> get(std::uint64_t offset, std::uint64_t length) override;
  void copy(std::uint64_t offset, std::span<std::byte> to) const override;
  void will_need(std::uint64_t offset, std::uint64_t length) const noexcept override;
  void finish() const override;

 private:
  const WeightFile& file_;
  std::string name_;
  std::uint64_t offset_;
  std::vector<std::byte>& staging_;
  MappedFile mapping_;
  std::optional<MappingGuard> guard_;
};

}  // namespace tpinfer
