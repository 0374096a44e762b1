#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"

namespace tpinfer {
namespace {

/// `bytes` rounded up so that what follows is aligned.
std::size_t place_of(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

void CudaBackend::choose_rows(const Tensor& logits, std::span<const RowWish> wishes, std::span<const LogitEdit> edits,
                              std::span<const std::uint8_t> known) {
  settle();
  const std::size_t rows = wishes.size();
  if (static_cast<std::int64_t>(rows) != logits.rows || logits.dtype != DType::float32)
    throw Error(ExitCode::internal, fmt::format("{} wishes for {} rows of logits", rows, logits.rows));
  std::int32_t most = 0;
  for (const RowWish& wish : wishes) most = std::max(most, wish.alternatives);
  if (!known.empty() && known_ids_.bytes() == 0)
    ring_.copy(known_ids_.reserve(known.size(), compute_.get()), known.data(), known.size(), compute_.get());

  const std::size_t wish_bytes = place_of(wishes.size_bytes());
  const std::size_t edit_bytes = place_of(edits.size_bytes());
  const std::size_t before_bytes = place_of(edits.size() * sizeof(float));
  const std::size_t choice_bytes = place_of(rows * sizeof(RowChoice));
  const std::size_t ranked_bytes = rows * static_cast<std::size_t>(most) * sizeof(RankedId);
  auto* memory = static_cast<std::byte*>(
      row_choices_.reserve(wish_bytes + edit_bytes + before_bytes + choice_bytes + ranked_bytes, compute_.get()));
  ring_.copy(memory, wishes.data(), wishes.size_bytes(), compute_.get());
  ring_.copy(memory + wish_bytes, edits.data(), edits.size_bytes(), compute_.get());
  std::byte* results = memory + wish_bytes + edit_bytes + before_bytes;
  cuda::choose({.logits = logits.floats(),
                .vocab = static_cast<std::int32_t>(logits.cols),
                .most_alternatives = most,
                .wishes = reinterpret_cast<const RowWish*>(memory),
                .edits = reinterpret_cast<const LogitEdit*>(memory + wish_bytes),
                .before = reinterpret_cast<float*>(memory + wish_bytes + edit_bytes),
                .known = known.empty() ? nullptr : static_cast<const std::uint8_t*>(known_ids_.data()),
                .choices = reinterpret_cast<RowChoice*>(results),
                .alternatives = reinterpret_cast<RankedId*>(results + choice_bytes)},
               logits.rows, compute_.get());
  if (choice_bytes + ranked_bytes > chosen_room_) {
    chosen_rows_ = allocate_pinned(choice_bytes + ranked_bytes);  // nothing is on its way to the old one
    chosen_room_ = choice_bytes + ranked_bytes;
  }
  chosen_count_ = rows;
  chosen_alternatives_ = static_cast<std::size_t>(most);
  copy_to_host(chosen_rows_.get(), results, choice_bytes + ranked_bytes);
  check(cudaEventRecord(chosen_.get(), compute_.get()), "recording the choice of tokens");
}

void CudaBackend::take_choices(std::vector<RowChoice>& choices, std::vector<RankedId>& alternatives) {
  check(cudaEventSynchronize(chosen_.get()), "waiting for the device");
  const auto* first = reinterpret_cast<const RowChoice*>(chosen_rows_.get());
  choices.assign(first, first + chosen_count_);
  const auto* ranked =
      reinterpret_cast<const RankedId*>(chosen_rows_.get() + place_of(chosen_count_ * sizeof(RowChoice)));
  alternatives.assign(ranked, ranked + chosen_count_ * chosen_alternatives_);
}

}  // namespace tpinfer
