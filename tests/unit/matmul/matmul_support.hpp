#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <ostream>
#include <set>
#include <thread>
#include <vector>

#include "backend/cpu/matmul.hpp"

namespace tpinfer {

/// Threads for tests: `count` of them, each with one range.
class TestThreads final : public ParallelFor {
 public:
  explicit TestThreads(int count) : count_(count) {}
  int threads() const noexcept override { return count_; }
  void run(std::int64_t count, std::int64_t grain, const RangeBody& body) override {
    if (count_ == 1) return body(0, count);
    const std::int64_t grains = (count + grain - 1) / grain;
    std::vector<std::thread> pool;
    for (int t = 0; t < count_; ++t) {
      const std::int64_t begin = grains * t / count_ * grain;
      const std::int64_t end = std::min(count, grains * (t + 1) / count_ * grain);
      if (begin < end) pool.emplace_back([&body, begin, end] { body(begin, end); });
    }
    for (std::thread& thread : pool) thread.join();
  }

 private:
  int count_;
};

/// The kernel sets of this processor; says once which ones it lacks.
inline const std::vector<KernelSet>& available_sets() {
  static const std::vector<KernelSet> sets = [] {
    std::vector<KernelSet> found{KernelSet::scalar};
    const auto add = [&](KernelSet set, const char* name, bool has) {
      if (has)
        found.push_back(set);
      else
        std::cout << "kernel set " << name << " is not tested: this processor lacks it\n";
    };
    add(KernelSet::avx2, "avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    add(KernelSet::avx512, "avx512", avx512);
    add(KernelSet::avx512_bf16, "avx512-bf16", avx512 && __builtin_cpu_supports("avx512bf16"));
    return found;
  }();
  return sets;
}

constexpr DType kWeightTypes[] = {DType::float32, DType::float16, DType::bfloat16};

inline DType input_type(DType weights) { return weights == DType::bfloat16 ? DType::bfloat16 : DType::float32; }

/// Number `index` of a fixed sequence of 24-bit numbers in [-2, 2): numpy computes the same (splitmix64).
inline float number(std::uint64_t index) {
  std::uint64_t z = index + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<float>(static_cast<std::int64_t>(z >> 40) - (1 << 23)) / 4194304.0F;
}

inline std::vector<float> numbers(std::int64_t count, std::uint64_t first, float scale) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(first + i) * scale;
  return values;
}

/// A row-major matrix of any weight type with its own storage.
struct Values {
  std::vector<std::byte> bytes;
  DType dtype;
  std::int64_t rows;
  std::int64_t cols;

  Values(const std::vector<float>& from, std::int64_t r, std::int64_t c, DType type)
      : bytes(from.size() * dtype_size(type) + 64), dtype(type), rows(r), cols(c) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (type == DType::float32) {
        std::memcpy(&bytes[4 * i], &from[i], 4);
      } else {
        const std::uint16_t half = type == DType::float16 ? float_to_float16(from[i]) : float_to_bfloat16(from[i]);
        std::memcpy(&bytes[2 * i], &half, 2);
      }
    }
  }
  float at(std::int64_t r, std::int64_t c) const {
    return load_element(bytes.data(), dtype, static_cast<std::size_t>(r * cols + c));
  }
  Tensor tensor(std::int64_t first = 0, std::int64_t count = -1) {
    return {bytes.data() + static_cast<std::size_t>(first * cols) * dtype_size(dtype), dtype, count < 0 ? rows : count,
            cols};
  }
  /// Columns [begin, end).
  StoredMatrix stored(std::int64_t begin, std::int64_t end) const {
    const auto size = static_cast<std::int64_t>(dtype_size(dtype));
    return {bytes.data() + begin * size, dtype, rows, end - begin, cols * size, size};
  }
  StoredMatrix stored() const { return stored(0, cols); }
};

inline CpuMatrix pack(const Values& w, DType dtype, std::vector<std::int64_t> leaf_ends = {}) {
  CpuMatrix matrix({.rows = w.rows, .cols = w.cols, .dtype = dtype, .leaf_ends = std::move(leaf_ends)});
  TestThreads one(1);
  matrix.load(0, 0, w.stored(), one);
  return matrix;
}

inline std::vector<float> multiply(KernelSet set, const CpuMatrix& w, const Tensor& x, const float* bias = nullptr,
                                   int threads = 1) {
  TestThreads team(threads);
  std::vector<float> y(static_cast<std::size_t>(x.rows * w.spec().rows), -77.0F);
  cpu_matmul(set, team, w, x, bias, {y.data(), DType::float32, x.rows, w.spec().rows});
  return y;
}

inline std::vector<double> multiply_partial(KernelSet set, const CpuMatrix& w, const Tensor& x, int threads = 1) {
  TestThreads team(threads);
  std::vector<double> partials(static_cast<std::size_t>(x.rows * w.spec().rows), -77.0);
  cpu_matmul_partial(set, team, w, x, {.totals = partials.data()});
  return partials;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Rows [first, first + count) of a [.., cols] result.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, std::int64_t first, std::int64_t count, std::int64_t cols) {
  return {all.begin() + first * cols, all.begin() + (first + count) * cols};
}

/// Cut points of `width` channels over `ranks` (units of 16, 4 or 1 channels, the first ranks one unit more).
inline std::vector<std::int64_t> channel_cuts(std::int64_t width, std::int64_t ranks) {
  const std::int64_t unit = width >= 512 ? 16 : width >= 64 ? 4 : 1;
  const std::int64_t units = (width + unit - 1) / unit;
  std::vector<std::int64_t> cuts;
  for (std::int64_t i = 0; i <= ranks; ++i)
    cuts.push_back(std::min(width, unit * (i * (units / ranks) + std::min(i, units % ranks))));
  return cuts;
}

/// Ends of the leaves of `width` channels: all cut points of the reproducible rank counts.
inline std::vector<std::int64_t> channel_leaf_ends(std::int64_t width) {
  std::set<std::int64_t> ends;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 8})
    for (const std::int64_t cut : channel_cuts(width, ranks)) ends.insert(cut);
  ends.erase(0);
  return {ends.begin(), ends.end()};
}

}  // namespace tpinfer
