#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/row_scan.cuh"

namespace tpinfer::cuda {
namespace {

constexpr double kMassUnit = 17592186044416.0;  // 2^44: a vocabulary's masses together stay below 2^63
constexpr double kMostFloat = 3.4028234663852886e38;

/// One row on its way: the logits after the edits, each divided by the temperature, and what is left of them.
struct Row {
  float* logits;
  int vocab;
  const std::uint8_t* known;  ///< null: every id may come
  double temperature = 1.0;
  double best = 0.0;       ///< highest of scaled()
  unsigned least_key = 0;  ///< of what top_k leaves
  unsigned cut_key = 0;    ///< of what top_p leaves: keys above it, and of those equal to it ids up to cut_id
  int cut_id = 0x7fffffff;
  double least_weight = 0.0;  ///< of what min_p leaves

  __device__ float usable(int id) const { return known && !known[id] ? -INFINITY : logits[id]; }
  /// +0 for -0, so that equal values have equal keys.
  __device__ float scaled(int id) const {
    return static_cast<float>(static_cast<double>(usable(id)) / temperature) + 0.0F;
  }
  /// In units of 1 / kMassUnit of the best id's; 0 for what is dropped.
  __device__ unsigned long long mass(int id, unsigned& key) const {
    const float value = scaled(id);
    key = order_key(value);
    if (value == -INFINITY || key < least_key || key < cut_key || (key == cut_key && id > cut_id)) return 0;
    const double weight = exp(static_cast<double>(value) - best);
    return weight < least_weight ? 0 : static_cast<unsigned long long>(weight * kMassUnit + 0.5);
  }
};

__device__ RankedValue best_usable(const Row& row, RowScratch& scratch) {
  RankedValue mine;
  for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads) {
    const RankedValue value{row.usable(id), id};
    if (precedes(value, mine)) mine = value;
  }
  return block_best(mine, scratch);
}

__device__ unsigned long long total_mass(const Row& row, RowScratch& scratch) {
  unsigned long long mine = 0;
  for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads) {
    unsigned key = 0;
    mine += row.mass(id, key);
  }
  unsigned long long total = 0;
  block_prefix(mine, total, scratch);
  return total;
}

/// Everything below the k-th highest goes; ties with it stay.
__device__ void keep_top_k(Row& row, int k, RowScratch& scratch) {
  if (k <= 0 || k >= row.vocab) return;
  const auto one_each = [&](int id, unsigned& key) {
    key = order_key(row.scaled(id));
    return 1ULL;
  };
  row.least_key = find_cut(row.vocab, static_cast<unsigned long long>(k) - 1, true, one_each, scratch).key;
}

/// The id of the `kept`-th of those whose key is `key`, in ascending id.
__device__ int id_of_tie(const Row& row, unsigned key, unsigned long long kept, RowScratch& scratch) {
  const IdRange ids = my_ids(row.vocab);
  unsigned long long mine = 0;
  for (int id = ids.begin; id < ids.end; ++id) mine += order_key(row.scaled(id)) == key ? 1 : 0;
  unsigned long long total = 0;
  unsigned long long at = block_prefix(mine, total, scratch);
  __syncthreads();
  for (int id = ids.begin; id < ids.end; ++id)
    if (order_key(row.scaled(id)) == key && ++at == kept) scratch.found_id = id;
  __syncthreads();
  return scratch.found_id;
}

/// From the least probable up, of equals from the highest id down, ids go while their summed probability is at most
/// 1 - top_p; the best always stays.
__device__ void keep_top_p(Row& row, double top_p, RowScratch& scratch) {
  if (top_p >= 1.0) return;
  const unsigned long long total = total_mass(row, scratch);
  const auto room = static_cast<unsigned long long>((1.0 - top_p) * static_cast<double>(total));
  const unsigned long long limit = room < total ? room : total - 1;
  const auto masses = [&](int id, unsigned& key) { return row.mass(id, key); };
  const KeyCut cut = find_cut(row.vocab, limit, false, masses, scratch);
  const auto each =
      static_cast<unsigned long long>(exp(static_cast<double>(value_of_key(cut.key)) - row.best) * kMassUnit + 0.5);
  unsigned long long ties = 0;
  for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads)
    ties += order_key(row.scaled(id)) == cut.key ? 1 : 0;
  block_prefix(ties, ties, scratch);
  unsigned long long dropped = each > 0 && limit > cut.beyond ? (limit - cut.beyond) / each : 0;
  if (dropped >= ties) dropped = ties - 1;
  row.cut_id = id_of_tie(row, cut.key, ties - dropped, scratch);
  row.cut_key = cut.key;
}

/// The id whose share of the mass, in ascending id, holds the draw.
__device__ int draw(const Row& row, double uniform, RowScratch& scratch) {
  const IdRange ids = my_ids(row.vocab);
  unsigned long long mine = 0;
  unsigned key = 0;
  for (int id = ids.begin; id < ids.end; ++id) mine += row.mass(id, key);
  unsigned long long total = 0;
  unsigned long long sum = block_prefix(mine, total, scratch);
  const double target = uniform * static_cast<double>(total);
  const bool here = mine > 0 && static_cast<double>(sum) <= target && target < static_cast<double>(sum + mine);
  // Where rounding puts the target at the very end, the last id holds it.
  RankedValue last{-1.0F, -1};
  for (int id = ids.begin; id < ids.end; ++id)
    if (row.mass(id, key) > 0) last = {static_cast<float>(id), id};
  last = block_best(last, scratch);
  if (threadIdx.x == 0) scratch.found_id = last.id;
  __syncthreads();
  if (here) {
    for (int id = ids.begin; id < ids.end; ++id) {
      const unsigned long long m = row.mass(id, key);
      sum += m;
      if (m == 0 || static_cast<double>(sum) <= target) continue;
      scratch.found_id = id;
      break;
    }
  }
  __syncthreads();
  return scratch.found_id;
}

__device__ int choose_token(Row& row, const RowWish& wish, RowScratch& scratch) {
  const RankedValue best = best_usable(row, scratch);
  if (best.value == -INFINITY) return -1;
  const double top = static_cast<double>(best.value) / wish.temperature;
  if (wish.greedy || !(fabs(top) <= kMostFloat)) return best.id;
  row.temperature = wish.temperature;
  row.best = static_cast<double>(static_cast<float>(top));
  keep_top_k(row, wish.top_k, scratch);
  keep_top_p(row, wish.top_p, scratch);
  row.least_weight = wish.min_p;
  return draw(row, wish.draw, scratch);
}

__device__ float not_nan(float value) { return value == value ? value : -INFINITY; }

/// Changes the row's logits by its edits; `before` keeps what they were.
__device__ void apply_edits(float* logits, const LogitEdit* edits, int count, float* before) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
    const LogitEdit edit = edits[i];
    const float raw = logits[edit.id];
    before[i] = raw;
    float value = not_nan(raw + edit.bias);
    if (edit.factor != 1.0F) value = not_nan(value > 0.0F ? value / edit.factor : value * edit.factor);
    value = not_nan(value - edit.frequency - edit.presence);
    logits[edit.id] = edit.banned ? -INFINITY : value;
  }
  __syncthreads();
}

/// The logit of `id` before the edits, on every thread.
__device__ float raw_logit(const Row& row, int id, const LogitEdit* edits, int count, const float* before,
                           RowScratch& scratch) {
  __syncthreads();
  if (threadIdx.x == 0) scratch.found_value = row.logits[id];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads)
    if (edits[i].id == id) scratch.found_value = before[i];
  __syncthreads();
  return scratch.found_value;
}

/// -> the logarithm of the row's summed exponentials; NaN when the row is not usable.
__device__ double log_normaliser(const Row& row, RowScratch& scratch) {
  RankedValue mine;
  double usable = 1.0;
  for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads) {
    const float value = row.logits[id];
    if (!(value < INFINITY)) usable = 0.0;  // NaN too
    const RankedValue ranked{value, id};
    if (precedes(ranked, mine)) mine = ranked;
  }
  const float best = block_best(mine, scratch).value;
  const bool finite = block_sum(usable, scratch) == kRowThreads && best > -INFINITY;
  double sum = 0.0;
  for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads)
    sum += static_cast<double>(expf(row.logits[id] - best));
  sum = block_sum(sum, scratch);
  return finite ? static_cast<double>(best) + log(sum) : static_cast<double>(NAN);
}

__device__ void find_alternatives(const Row& row, int count, double normaliser, RankedId* to, RowScratch& scratch) {
  RankedValue last{INFINITY, -1};
  for (int k = 0; k < count; ++k) {
    RankedValue mine;
    for (int id = static_cast<int>(threadIdx.x); id < row.vocab; id += kRowThreads) {
      const RankedValue value{row.logits[id], id};
      if (precedes(last, value) && precedes(value, mine)) mine = value;
    }
    last = block_best(mine, scratch);
    if (threadIdx.x == 0)
      to[k] = last.id < row.vocab ? RankedId{last.id, static_cast<float>(static_cast<double>(last.value) - normaliser)}
                                  : RankedId{};
  }
}

/// One block a row.
__global__ void choose_kernel(RowChoices rows) {
  __shared__ RowScratch scratch;
  const auto index = static_cast<int>(blockIdx.x);
  const RowWish wish = rows.wishes[index];
  const LogitEdit* edits = rows.edits + wish.first_edit;
  float* before = rows.before + wish.first_edit;
  Row row{rows.logits + static_cast<std::int64_t>(index) * rows.vocab, rows.vocab, nullptr};
  RowChoice choice;
  const double normaliser = log_normaliser(row, scratch);
  choice.finite = normaliser == normaliser ? 1 : 0;
  if (choice.finite && (wish.given >= 0 || wish.choose)) {
    find_alternatives(row, wish.alternatives, normaliser, rows.alternatives + index * rows.most_alternatives, scratch);
    __syncthreads();
    int edited = 0;
    choice.token = wish.given;
    if (wish.given < 0) {
      edited = wish.edits;
      apply_edits(row.logits, edits, edited, before);
      row.known = wish.known_only ? rows.known : nullptr;
      choice.token = choose_token(row, wish, scratch);
    }
    if (choice.token >= 0)
      choice.logprob = static_cast<float>(
          static_cast<double>(raw_logit(row, choice.token, edits, edited, before, scratch)) - normaliser);
  }
  if (threadIdx.x == 0) rows.choices[index] = choice;
}

}  // namespace

void choose(const RowChoices& rows, std::int64_t count, cudaStream_t stream) {
  launch(choose_kernel, {.grid = dim3(static_cast<unsigned>(count)), .block = dim3(kRowThreads)}, stream, rows);
}

}  // namespace tpinfer::cuda
