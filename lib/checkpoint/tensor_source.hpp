#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tpinfer {

/// Where the stored bytes of one tensor come from, piece by piece.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// Pages that nobody looks at cost nothing.
  virtual bool is_mapped() const noexcept = 0;
  /// Bytes [offset, offset + length) of the tensor, until the next call.
  virtual std::span<const std::byte> get(std::uint64_t offset, std::uint64_t length) = 0;
  /// The same into memory of the caller.
  virtual void copy(std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// Advice only.
  virtual void will_need(std::uint64_t offset, std::uint64_t length) const noexcept = 0;
  /// To be called when everything is copied: Error(input) when what was handed out was not the planned tensor.
  virtual void finish() const = 0;
};

}  // namespace tpinfer
