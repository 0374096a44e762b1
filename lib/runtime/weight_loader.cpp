#include "runtime/weight_loader.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "checkpoint/random_tensor.hpp"
#include "checkpoint/weight_file.hpp"
#include "core/error.hpp"
#include "runtime/common_checksums.hpp"
#include "runtime/finite.hpp"

namespace tpinfer {
namespace {

constexpr float kRandomDeviation = 0.02F;  // as models are initialised

// The matrix of a tensor that is being copied (one of several when they are stacked; a vector is one column).
struct Task {
  std::size_t index;  ///< in plan.tensors
  const PlannedTensor& tensor;
  const ExpectedTensor& expected;
  const RoleSlice& slice;
  TensorSource& source;
  std::int64_t rows, cols, element;
  std::int64_t matrix = 0;
  std::int64_t expert = 0;

  std::int64_t row_bytes() const { return cols * element; }
  /// Of the first byte of a row, in the tensor.
  std::uint64_t offset(std::int64_t row) const {
    return static_cast<std::uint64_t>((matrix * rows + row) * row_bytes());
  }
  /// Whole rows that begin at `data`.
  StoredMatrix block(const std::byte* data, std::int64_t count) const {
    return {.data = data,
            .dtype = tensor.dtype,
            .rows = count,
            .cols = cols,
            .row_stride = row_bytes(),
            .col_stride = element};
  }
  /// The columns of a piece of it.
  StoredMatrix columns(StoredMatrix block, const Piece& piece) const {
    block.data += piece.from * element;
    block.cols = piece.count;
    return block;
  }
};

/// Adjacent whole rows of a matrix, and the row of the rank's own part that the first of them becomes.
struct RowBlock {
  std::int64_t from, count, to;
};

// The rows that a slice needs, in blocks of about a piece of the reader.
std::vector<RowBlock> blocks_of(const Task& task) {
  constexpr std::int64_t kPanel = 32;  // rows that a backend likes to get together
  std::int64_t most = static_cast<std::int64_t>(TensorReader::kPiece) / std::max<std::int64_t>(task.row_bytes(), 1);
  most = most >= kPanel ? most / kPanel * kPanel : std::max<std::int64_t>(most, 1);
  std::vector<RowBlock> blocks;
  const auto add = [&](const Piece& run) {
    for (std::int64_t done = 0; done < run.count; done += most)
      blocks.push_back({run.from + done, std::min(most, run.count - done), run.to + done});
  };
  if (task.slice.axis == 0)
    for (const Piece& piece : task.slice.pieces) add(piece);
  else if (!task.slice.pieces.empty())
    add({.from = 0, .to = 0, .count = task.rows});
  return blocks;
}

/// Counts bytes of the pages that runs of a file lie in, each page once when the runs ascend.
class TouchedPages {
 public:
  std::uint64_t add(std::uint64_t offset, std::uint64_t length) {
    const std::uint64_t begin = std::max(offset / page_ * page_, counted_to_);
    const std::uint64_t end = (offset + length + page_ - 1) / page_ * page_;
    counted_to_ = std::max(counted_to_, end);
    return end > begin ? end - begin : 0;
  }
  void restart() { counted_to_ = 0; }

 private:
  std::uint64_t page_ = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t counted_to_ = 0;
};

// A vector, or vectors one after the other, from element `first` on.
void copy_vector(Backend& backend, const DeviceBuffer& to, std::int64_t first, const StoredMatrix& from, float offset) {
  std::vector<float> values(static_cast<std::size_t>(from.rows * from.cols));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_element(from.data, from.dtype, i) + offset;
  backend.copy_to_device(to.as<float>() + first, values.data(), values.size() * sizeof(float));
  backend.synchronize();
}

/// The same matrix with rows for columns.
StoredMatrix turned(const StoredMatrix& m) {
  return {.data = m.data,
          .dtype = m.dtype,
          .rows = m.cols,
          .cols = m.rows,
          .row_stride = m.col_stride,
          .col_stride = m.row_stride};
}

class Loader {
 public:
  Loader(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank, RankWeights& weights,
         HostExchange* exchange, const LoadOptions& options)
      : backend_(backend),
        spec_(spec),
        plan_(plan),
        rank_(rank),
        weights_(weights),
        exchange_(exchange && exchange->size() > 1 ? exchange : nullptr),
        options_(options),
        norm_offset_(static_cast<float>(spec.norm_offset)),
        files_(plan.files.size()),
        checksums_(spec, plan, rank) {
    const std::vector<std::string> roles = plan.role_names();
    for (std::size_t i = 0; i < roles.size(); ++i) class_of_[roles[i]] = i;
    report_.by_class.resize(roles.size());
  }

  LoadReport run(const LoadProgress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t total = plan_.per_rank[static_cast<std::size_t>(rank_)].file_bytes;
    std::uint64_t done = 0;
    for (const std::size_t t : in_file_order()) {
      done += load_tensor(t);
      if (abandoned_) break;
      if (progress) progress(done, total);
    }
    backend_.synchronize();
    report_.common = checksums_.take();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  // Storage is read front to back.
  std::vector<std::size_t> in_file_order() const {
    std::vector<std::size_t> order(plan_.tensors.size());
    for (std::size_t t = 0; t < order.size(); ++t) order[t] = t;
    std::ranges::sort(order, {},
                      [&](std::size_t t) { return std::pair(plan_.tensors[t].file, plan_.tensors[t].offset); });
    return order;
  }

  const WeightFile& file(std::uint32_t index) {
    std::unique_ptr<WeightFile>& file = files_[index];
    if (file) return *file;
    const PlanFile& planned = plan_.files[index];
    PlannedFile wanted{planned.path, planned.bytes, planned.header_bytes, planned.header_hash};
    if (options_.on_planning_host) wanted.modified = planned.modified;
    file = std::make_unique<WeightFile>(wanted, options_.mode);
    return *file;
  }

  bool is_random(const PlannedTensor& tensor) const { return plan_.files[tensor.file].path.empty(); }

  std::unique_ptr<TensorSource> open(const PlannedTensor& tensor, const ExpectedTensor& expected, std::uint64_t bytes) {
    if (!is_random(tensor))
      return std::make_unique<TensorReader>(file(tensor.file), tensor.name, tensor.offset, bytes, staging_);
    const float mean = is_norm(expected.role) && !expected.bias ? 1.0F - norm_offset_ : 0.0F;  // scale by about 1
    const auto values = random_.try_emplace(std::pair(tensor.dtype, mean), tensor.dtype, mean, kRandomDeviation).first;
    return std::make_unique<RandomTensor>(values->second, tensor.name, tensor.dtype, staging_);
  }

  // -> stored bytes copied
  std::uint64_t load_tensor(std::size_t t) {
    const PlannedTensor& tensor = plan_.tensors[t];
    const ExpectedTensor& expected = spec_.tensors[tensor.expected];
    const RoleSlice slice = role_slice(spec_, expected, plan_.per_rank[static_cast<std::size_t>(rank_)].share);
    const PlannedSlice& planned = plan_.slices[t][static_cast<std::size_t>(rank_)];
    if (stored_axis(slice, expected.fusion) != planned.axis || slice.extent() != planned.extent())
      throw Error(ExitCode::internal, fmt::format("this rank's slice of {} is not the one of the plan", tensor.name));
    if (slice.pieces.empty() && !is_shared(tensor, slice)) return 0;
    // a stacked tensor is one matrix after the other
    const bool stacked = expected.fusion == Fusion::stacked;
    const std::int64_t matrices = stacked ? tensor.shape[0] : 1;
    const std::int64_t rows = tensor.shape[stacked ? 1 : 0];
    const std::int64_t cols = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
    const auto element = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    const std::unique_ptr<TensorSource> source =
        open(tensor, expected, static_cast<std::uint64_t>(matrices * rows * cols * element));
    std::uint64_t copied = 0;
    pages_.restart();
    for (std::int64_t m = 0; m < matrices && !abandoned_; ++m) {
      const Task task{t,    tensor, expected, slice,           *source,
                      rows, cols,   element,  stacked ? m : 0, stacked ? m : expected.expert};
      copied += is_shared(tensor, slice) ? copy_shared(task) : copy_own(task);
    }
    source->finish();
    report_.tensors += slice.pieces.empty() ? 0 : 1;
    return copied;
  }

  // This rank's rows, or columns of all rows, block by block; the next one is fetched meanwhile.
  std::uint64_t copy_own(const Task& task) {
    const std::vector<RowBlock> blocks = blocks_of(task);
    const auto bytes = [&](const RowBlock& block) {
      return static_cast<std::uint64_t>(block.count * task.row_bytes());
    };
    std::uint64_t copied = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (std::size_t next = i == 0 ? 0 : i + 1; next < std::min(i + 2, blocks.size()); ++next)
        task.source.will_need(task.offset(blocks[next].from), bytes(blocks[next]));
      const RowBlock& rows = blocks[i];
      const StoredMatrix block = task.block(task.source.get(task.offset(rows.from), bytes(rows)).data(), rows.count);
      const bool by_rows = task.slice.axis == 0;
      if (by_rows || !task.source.is_mapped()) count(task, rows.from, 0, block);
      if (by_rows) {
        verify(task, rows.from, 0, block);
        copied += take(task, rows.from, 0, block, rows.to, 0);
        continue;
      }
      for (const Piece& piece : task.slice.pieces) {
        const StoredMatrix part = task.columns(block, piece);
        verify(task, rows.from, piece.from, part);
        if (task.source.is_mapped()) count(task, rows.from, piece.from, part);
        copied += take(task, rows.from, piece.from, part, rows.to, piece.to);
      }
    }
    return copied;
  }

  // Bytes that are looked at for a block at (row, col) of the matrix.
  void count(const Task& task, std::int64_t row, std::int64_t col, const StoredMatrix& block) {
    if (is_random(task.tensor)) return;
    LoadedBytes& counts = report_.by_class[class_of_.at(task.tensor.role)];
    const auto width = static_cast<std::uint64_t>(block.cols * task.element);
    const bool joined = block.cols == task.cols;
    const std::int64_t runs = joined ? 1 : block.rows;
    const std::uint64_t run = joined ? width * static_cast<std::uint64_t>(block.rows) : width;
    for (std::int64_t r = 0; r < runs && run > 0; ++r)
      counts.touched +=
          pages_.add(task.tensor.offset + task.offset(row + r) + static_cast<std::uint64_t>(col * task.element), run);
    counts.read += width * static_cast<std::uint64_t>(block.rows);
  }

  void verify(const Task& task, std::int64_t row, std::int64_t col, const StoredMatrix& block) const {
    const std::byte* found = options_.verify_finite ? find_non_finite(block) : nullptr;
    if (!found) return;
    const PlannedTensor& tensor = task.tensor;
    const float value = load_element(found, tensor.dtype, 0);
    const auto at = found - block.data;
    auto flat = static_cast<std::int64_t>(task.offset(row)) / task.element + at / block.row_stride * task.cols + col +
                at % block.row_stride / task.element;
    std::vector<std::int64_t> index(tensor.shape.size());
    for (std::size_t axis = index.size(); axis-- > 0; flat /= tensor.shape[axis])
      index[axis] = flat % tensor.shape[axis];
    throw Error(ExitCode::input,
                fmt::format("{}: the tensor {} holds {} at [{}]", plan_.files[tensor.file].path, tensor.name,
                            std::isnan(value) ? "NaN" : (value > 0 ? "infinity" : "-infinity"), fmt::join(index, ", ")),
                "the file is damaged or the training diverged; download it again, or load it as it is with "
                "model.verify_weights: header");
  }

  // Stored rows are cut, and one fits in the buffer: the same answer on every rank.
  bool is_shared(const PlannedTensor& tensor, const RoleSlice& slice) const {
    return exchange_ && !is_random(tensor) && slice.axis == 1 &&
           static_cast<std::uint64_t>(tensor.shape.back()) * dtype_size(tensor.dtype) <= exchange_->bytes();
  }

  // Round by round each rank of the host reads some whole rows, and all take their columns of everybody's rows.
  std::uint64_t copy_shared(const Task& task) {
    const std::int64_t ranks = exchange_->size();
    const std::int64_t each =
        std::min((task.rows + ranks - 1) / ranks, static_cast<std::int64_t>(exchange_->bytes()) / task.row_bytes());
    std::uint64_t copied = 0;
    const auto rows_of = [&](std::int64_t first, std::int64_t rank) {
      return Range{std::min(first + rank * each, task.rows), std::min(first + (rank + 1) * each, task.rows)};
    };
    const auto fetch = [&](const Range& rows) {
      task.source.will_need(task.offset(rows.begin), static_cast<std::uint64_t>(rows.count() * task.row_bytes()));
    };
    fetch(rows_of(0, exchange_->rank()));
    for (std::int64_t first = 0; first < task.rows && !abandoned_; first += each * ranks) {
      const Range mine = rows_of(first, exchange_->rank());
      fetch(rows_of(first + each * ranks, exchange_->rank()));
      const std::span<std::byte> to(exchange_->mine(), static_cast<std::size_t>(mine.count() * task.row_bytes()));
      task.source.copy(task.offset(mine.begin), to);
      const StoredMatrix read = task.block(to.data(), mine.count());
      verify(task, mine.begin, 0, read);
      count(task, mine.begin, 0, read);
      abandoned_ = !exchange_->meet();
      for (std::int64_t rank = 0; rank < ranks && !abandoned_; ++rank) {
        const Range rows = rows_of(first, rank);
        if (rows.count() == 0) continue;
        const StoredMatrix theirs = task.block(exchange_->of(static_cast<int>(rank)), rows.count());
        for (const Piece& piece : task.slice.pieces)
          copied += take(task, rows.begin, piece.from, task.columns(theirs, piece), rows.begin, piece.to);
      }
      exchange_->next();
    }
    return copied;
  }

  // Puts a block that stands at (row, col) of the stored matrix to (to_row, to_col) of the rank's own part.
  // -> stored bytes
  std::uint64_t take(const Task& task, std::int64_t row, std::int64_t col, const StoredMatrix& block,
                     std::int64_t to_row, std::int64_t to_col) {
    checksums_.add(task.index, task.matrix, row, col, block);
    const WeightTarget target = weights_.target(task.expected, task.expert);
    const auto elements = static_cast<std::uint64_t>(block.rows * block.cols);
    std::uint64_t& owned = report_.by_class[class_of_.at(task.tensor.role)].owned;
    if (target.vector) {
      const bool scales = is_norm(task.expected.role) && !task.expected.bias;
      copy_vector(backend_, *target.vector, (target.row + to_row) * block.cols, block, scales ? norm_offset_ : 0.0F);
      owned += elements * sizeof(float);
    } else {
      if (task.expected.storage == Storage::in_out)
        backend_.load_matrix(*target.matrix, target.row + to_col, to_row, turned(block));
      else
        backend_.load_matrix(*target.matrix, target.row + to_row, to_col, block);
      owned += owned_share(*target.matrix, block);
    }
    return elements * static_cast<std::uint64_t>(task.element);
  }

  // A matrix that several tensors fill is shared out by elements.
  static std::uint64_t owned_share(const PackedMatrix& matrix, const StoredMatrix& part) {
    const auto all = static_cast<double>(matrix.spec().rows * matrix.spec().cols);
    return static_cast<std::uint64_t>(static_cast<double>(matrix.bytes()) * static_cast<double>(part.rows * part.cols) /
                                      all);
  }

  Backend& backend_;
  const ModelSpec& spec_;
  const ShardingPlan& plan_;
  int rank_;
  RankWeights& weights_;
  HostExchange* exchange_;
  LoadOptions options_;
  float norm_offset_;
  bool abandoned_ = false;  ///< another rank of the host has failed
  std::vector<std::unique_ptr<WeightFile>> files_;
  std::vector<std::byte> staging_;
  std::map<std::pair<DType, float>, RandomValues> random_;
  CommonChecksums checksums_;
  TouchedPages pages_;
  std::map<std::string, std::size_t> class_of_;
  LoadReport report_;
};

}  // namespace

LoadReport load_weights(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank,
                        RankWeights& weights, HostExchange* exchange, const LoadProgress& progress,
                        const LoadOptions& options) {
  try {
    return Loader(backend, spec, plan, rank, weights, exchange, options).run(progress);
  } catch (...) {
    if (exchange) exchange->fail();
    throw;
  }
}

}  // namespace tpinfer
