#include "checkpoint/random_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/bytes.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kValues = 1'000'003;  // a prime number

void store(std::byte* to, DType dtype, float value) {
  const auto put = [to](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  if (dtype == DType::float32) return put(value);
  put(dtype == DType::float16 ? float_to_float16(value) : float_to_bfloat16(value));
}

}  // namespace

RandomValues::RandomValues(DType dtype, float mean, float deviation)
    : element_(dtype_size(dtype)), values_(kValues * element_) {
  std::mt19937_64 generator(20);
  std::normal_distribution<float> normal(mean, deviation);
  for (std::size_t i = 0; i < kValues; ++i) store(values_.data() + i * element_, dtype, normal(generator));
}

void RandomValues::copy(std::uint64_t first, std::span<std::byte> to) const {
  std::size_t at = static_cast<std::size_t>(first % kValues) * element_;
  while (!to.empty()) {
    const std::size_t count = std::min(to.size(), values_.size() - at);
    std::memcpy(to.data(), values_.data() + at, count);
    to = to.subspan(count);
    at = 0;
  }
}

RandomTensor::RandomTensor(const RandomValues& values, std::string_view name, DType dtype,
                           std::vector<std::byte>& staging)
    : values_(values),
      first_(hash_bytes(std::as_bytes(std::span(name))) % kValues),
      element_(dtype_size(dtype)),
      staging_(staging) {}

std::span<const std::byte> RandomTensor::get(std::uint64_t offset, std::uint64_t length) {
  if (staging_.size() < length) staging_.resize(length);
  const std::span<std::byte> to(staging_.data(), length);
  copy(offset, to);
  return to;
}

void RandomTensor::copy(std::uint64_t offset, std::span<std::byte> to) const {
  values_.copy(first_ + offset / element_, to);
}

}  // namespace tpinfer
