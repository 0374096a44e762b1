#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/tensor_source.hpp"
#include "core/dtype.hpp"

namespace tpinfer {

/// Values of a normal distribution in a type of weights, to be read round and round.
class RandomValues {
 public:
  RandomValues(DType dtype, float mean, float deviation);
  /// Elements [first, ...) of the endless row into `to`, whole elements.
  void copy(std::uint64_t first, std::span<std::byte> to) const;

 private:
  std::size_t element_;
  std::vector<std::byte> values_;  ///< a prime number of them: rows of a matrix are never in step
};

/// A tensor that no file holds: random weights for sizing and speed. What it holds depends on its name alone, so that
/// every number of ranks gets the same model.
class RandomTensor final : public TensorSource {
 public:
  /// `staging`: memory that is reused from tensor to tensor.
  RandomTensor(const RandomValues& values, std::string_view name, DType dtype, std::vector<std::byte>& staging);

  bool is_mapped() const noexcept override { return false; }
  std::span<const std::byte> get(std::uint64_t offset, std::uint64_t length) override;
  void copy(std::uint64_t offset, std::span<std::byte> to) const override;
  void will_need(std::uint64_t, std::uint64_t) const noexcept override {}
  void finish() const override {}

 private:
  const RandomValues& values_;
  std::uint64_t first_;  ///< element of the endless row that the tensor begins with
  std::uint64_t element_;
  std::vector<std::byte>& staging_;
};

}  // namespace tpinfer
