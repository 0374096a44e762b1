#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tpinfer {

class Product;

/// Memory that one thread keeps from product to product, so that a step takes none. It grows to what the largest block
/// so far needed; at most Product::most_scratch_bytes().
class alignas(64) ProductScratch {
 public:
  /// Before the blocks of another product: what is staged belongs to the last one.
  void begin() noexcept { product_ = nullptr; }

  std::vector<float> near = {};  ///< of the mixture: outputs that are soon read again

 private:
  friend class Product;
  std::unique_ptr<std::byte[]> inputs_;  ///< [rows, width_] elements
  std::size_t input_bytes_ = 0;
  std::int64_t width_ = 0;  ///< bytes from row to row
  const Product* product_ = nullptr;
  std::int64_t row_ = 0;  ///< first row in `inputs_`
  std::int64_t rows_ = 0;
  std::int64_t first_col_ = 0;
  std::vector<float> tail_sums_ = {};  ///< [rows, 32] outputs of a last panel that is not full
  std::vector<double> tail_totals_ = {};
};

}  // namespace tpinfer
