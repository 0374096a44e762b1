#include "backend/cuda/cuda_matrix.hpp"

#include <algorithm>

#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMatrixAlignment = 256;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kMatrixAlignment - 1) / kMatrixAlignment * kMatrixAlignment;
}

}  // namespace

CudaMatrix::CudaMatrix(const MatrixSpec& spec, MatrixPool& pool) : PackedMatrix(spec), pool_(pool) {
  checked_cast<std::int32_t>(spec.rows);
  checked_cast<std::int32_t>(spec.cols);
  const auto whole = [](std::int64_t column) { return column % 8 == 0; };
  const std::vector<std::int64_t>& ends = spec.leaf_ends;
  if (!is_weight_type(spec.dtype) || !std::ranges::is_sorted(ends) || (!ends.empty() && ends.back() != spec.cols))
    throw Error(ExitCode::internal, fmt::format("a {} matrix of {} columns in {} leaves does not exist",
                                                dtype_name(spec.dtype), spec.cols, ends.size()));
  aligned_ = whole(spec.cols) && std::ranges::all_of(ends, whole);
  if (bytes() == 0) return;
  if (ends.size() > 1) leaf_ends_ = pool.leaf_ends(ends);
  pool.waiting_.push_back(this);
}

CudaMatrix::~CudaMatrix() {
  std::erase(pool_.waiting_, this);
  ++pool_.destroyed_;
}

std::size_t CudaMatrix::bytes() const noexcept {
  return static_cast<std::size_t>(spec().rows * spec().cols) * dtype_size(spec().dtype);
}

std::byte* CudaMatrix::data() const {
  if (bytes() == 0) return nullptr;
  if (!block_) pool_.place();
  return static_cast<std::byte*>(block_->get()) + offset_;
}

cuda::WeightView CudaMatrix::view() const {
  return {.data = data(),
          .leaf_ends = leaf_ends_,
          .leaves = static_cast<std::int32_t>(spec().leaf_ends.size()),
          .rows = static_cast<std::int32_t>(spec().rows),
          .cols = static_cast<std::int32_t>(spec().cols),
          .aligned = aligned_};
}

void MatrixPool::place() {
  std::size_t total = 0;
  for (const CudaMatrix* matrix : waiting_) total += rounded_up(matrix->bytes());
  const auto block = std::make_shared<CudaMemory>(allocate_cuda(total, stream_));
  std::size_t offset = 0;
  for (CudaMatrix* matrix : waiting_) {
    matrix->block_ = block;
    matrix->offset_ = offset;
    offset += rounded_up(matrix->bytes());
  }
  waiting_.clear();
}

const std::int32_t* MatrixPool::leaf_ends(const std::vector<std::int64_t>& ends) {
  CudaMemory& memory = leaf_ends_[ends];
  if (!memory) {
    const std::vector<std::int32_t> narrow(ends.begin(), ends.end());
    memory = allocate_cuda(narrow.size() * sizeof(std::int32_t), stream_);
    ring_.copy(memory.get(), narrow.data(), narrow.size() * sizeof(std::int32_t), stream_);
  }
  return static_cast<const std::int32_t*>(memory.get());
}

}  // namespace tpinfer
