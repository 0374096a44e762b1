#include "runtime/weight_loader.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>

#include "checkpoint/mapped_file.hpp"
#include "core/bytes.hpp"
#include "core/error.hpp"
#include "runtime/finite.hpp"

namespace tpinfer {
namespace {

// The bytes of one tensor in its mapping, seen as [rows, cols] (a vector is one column).
struct StoredTensor {
  std::span<const std::byte> bytes;
  std::int64_t rows, cols, element;

  StoredMatrix part(const PlannedTensor& tensor, int axis, const Piece& piece) const {
    const std::int64_t row = axis == 0 ? piece.from : 0;
    const std::int64_t col = axis == 1 ? piece.from : 0;
    return {.data = bytes.data() + (row * cols + col) * element,
            .dtype = tensor.dtype,
            .rows = axis == 0 ? piece.count : rows,
            .cols = axis == 1 ? piece.count : cols,
            .row_stride = cols * element,
            .col_stride = element};
  }
};

// Bytes of the pages that the rows of `part` lie in, each page once.
std::uint64_t touched_bytes(const StoredMatrix& part, std::int64_t element) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(part.data);
  const auto width = static_cast<std::uint64_t>(part.cols * element);
  std::uint64_t total = 0;
  std::uint64_t counted_to = 0;
  const std::int64_t runs = width == static_cast<std::uint64_t>(part.row_stride) ? 1 : part.rows;
  const std::uint64_t run = runs == 1 ? width * static_cast<std::uint64_t>(part.rows) : width;
  for (std::int64_t r = 0; r < runs; ++r) {
    const std::uint64_t at = first + static_cast<std::uint64_t>(r * part.row_stride);
    const std::uint64_t begin = std::max(at / page * page, counted_to);
    const std::uint64_t end = (at + run + page - 1) / page * page;
    if (end > begin) total += end - begin;
    counted_to = std::max(counted_to, end);
  }
  return total;
}

void copy_vector(Backend& backend, const DeviceBuffer& to, std::int64_t first, const StoredMatrix& from) {
  std::vector<float> values(static_cast<std::size_t>(from.rows));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_element(from.data, from.dtype, i);
  backend.copy_to_device(to.as<float>() + first, values.data(), values.size() * sizeof(float));
  backend.synchronize();
}

class Loader {
 public:
  Loader(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank, RankWeights& weights,
         HostExchange* exchange, bool verify_finite)
      : backend_(backend),
        spec_(spec),
        plan_(plan),
        rank_(rank),
        weights_(weights),
        exchange_(exchange && exchange->size() > 1 ? exchange : nullptr),
        verify_finite_(verify_finite),
        files_(plan.files.size()) {
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

  const MappedFile& file(std::uint32_t index) {
    MappedFile& mapped = files_[index];
    if (mapped.bytes().empty()) mapped = MappedFile::open(plan_.files[index].path, plan_.files[index].bytes);
    return mapped;
  }

  // -> stored bytes copied
  std::uint64_t load_tensor(std::size_t t) {
    const PlannedTensor& tensor = plan_.tensors[t];
    const ExpectedTensor& expected = spec_.tensors[tensor.expected];
    const RoleSlice slice = role_slice(spec_, expected, plan_.per_rank[static_cast<std::size_t>(rank_)].share);
    const PlannedSlice& planned = plan_.slices[t][static_cast<std::size_t>(rank_)];
    if (stored_axis(slice, expected.fusion) != planned.axis || slice.extent() != planned.extent())
      throw Error(ExitCode::internal, fmt::format("this rank's slice of {} is not the one of the plan", tensor.name));
    if (slice.pieces.empty() && !is_shared(tensor)) return 0;
    // a stacked tensor is one matrix after the other
    const bool stacked = expected.fusion == Fusion::stacked;
    const std::int64_t matrices = stacked ? tensor.shape[0] : 1;
    const auto element = static_cast<std::int64_t>(dtype_size(tensor.dtype));
    const std::int64_t rows = tensor.shape[stacked ? 1 : 0];
    const std::int64_t cols = tensor.shape.size() > 1 ? tensor.shape.back() : 1;
    const auto one = static_cast<std::uint64_t>(rows * cols * element);
    const std::uint64_t whole = one * static_cast<std::uint64_t>(matrices);
    const MappedFile& mapped = file(tensor.file);
    const std::span<const std::byte> bytes = mapped.bytes().subspan(tensor.offset, whole);
    std::uint64_t copied = 0;
    for (std::int64_t m = 0; m < matrices; ++m) {
      const StoredTensor stored{bytes.subspan(static_cast<std::uint64_t>(m) * one, one), rows, cols, element};
      const std::int64_t expert = stacked ? m : expected.expert;
      if (is_shared(tensor)) {
        copied += copy_shared(mapped, tensor, expected, expert, slice, stored);
        continue;
      }
      read_ahead(mapped, tensor, slice, stored);
      copied += copy_pieces(tensor, expected, expert, slice, stored);
    }
    if (tensor.split == Split::replicated) report_.replicated.push_back({tensor.name, hash_bytes(bytes)});
    mapped.release(tensor.offset, whole);
    report_.tensors += slice.pieces.empty() ? 0 : 1;
    return copied;
  }

  static void read_ahead(const MappedFile& mapped, const PlannedTensor& tensor, const RoleSlice& slice,
                         const StoredTensor& stored) {
    for (const Piece& piece : slice.pieces) {
      const StoredMatrix part = stored.part(tensor, slice.axis, piece);
      const auto offset = static_cast<std::uint64_t>(part.data - mapped.bytes().data());
      const auto length = static_cast<std::uint64_t>((part.rows - 1) * part.row_stride + part.cols * part.col_stride);
      mapped.will_need(offset, length);
    }
  }

  void verify(const MappedFile& mapped, const PlannedTensor& tensor, const StoredMatrix& part) const {
    const std::byte* found = verify_finite_ ? find_non_finite(part) : nullptr;
    if (!found) return;
    const float value = load_element(found, tensor.dtype, 0);
    const auto byte = static_cast<std::uint64_t>(found - mapped.bytes().data()) - tensor.offset;
    auto flat = static_cast<std::int64_t>(byte / dtype_size(tensor.dtype));
    std::vector<std::int64_t> index(tensor.shape.size());
    for (std::size_t axis = index.size(); axis-- > 0; flat /= tensor.shape[axis])
      index[axis] = flat % tensor.shape[axis];
    throw Error(ExitCode::input,
                fmt::format("{}: the tensor {} holds {} at [{}]", plan_.files[tensor.file].path, tensor.name,
                            std::isnan(value) ? "NaN" : (value > 0 ? "infinity" : "-infinity"), fmt::join(index, ", ")),
                "the file is damaged or the training diverged; download it again, or load it as it is with "
                "model.verify_weights: header");
  }

  // Row-parallel, and a row fits in the buffer: the same answer on every rank.
  bool is_shared(const PlannedTensor& tensor) const {
    return exchange_ && tensor.split == Split::columns &&
           static_cast<std::uint64_t>(tensor.shape.back()) * dtype_size(tensor.dtype) <= exchange_->bytes();
  }

  // Round by round each rank of the host reads some whole rows, and all take their columns of everybody's rows.
  std::uint64_t copy_shared(const MappedFile& mapped, const PlannedTensor& tensor, const ExpectedTensor& expected,
                            std::int64_t expert, const RoleSlice& slice, const StoredTensor& stored) {
    const std::int64_t row_bytes = stored.cols * stored.element;
    const std::int64_t ranks = exchange_->size();
    const std::int64_t each =
        std::min((stored.rows + ranks - 1) / ranks, static_cast<std::int64_t>(exchange_->bytes()) / row_bytes);
    LoadedBytes& counts = report_.by_class[class_of_.at(tensor.role)];
    std::uint64_t copied = 0;
    for (std::int64_t first = 0; first < stored.rows && !abandoned_; first += each * ranks) {
      const auto rows_of = [&](std::int64_t rank) {
        return Range{std::min(first + rank * each, stored.rows), std::min(first + (rank + 1) * each, stored.rows)};
      };
      const Range mine = rows_of(exchange_->rank());
      const StoredMatrix read = stored.part(tensor, 0, {.from = mine.begin, .to = 0, .count = mine.count()});
      const auto bytes = static_cast<std::uint64_t>(mine.count() * row_bytes);
      mapped.will_need(static_cast<std::uint64_t>(read.data - mapped.bytes().data()), bytes);
      verify(mapped, tensor, read);
      if (bytes > 0) std::memcpy(exchange_->mine(), read.data, bytes);
      counts.touched += bytes > 0 ? touched_bytes(read, stored.element) : 0;
      counts.read += bytes;
      abandoned_ = !exchange_->meet();
      for (std::int64_t rank = 0; rank < ranks && !abandoned_; ++rank) {
        const Range rows = rows_of(rank);
        const StoredTensor theirs{
            {exchange_->of(static_cast<int>(rank)), static_cast<std::size_t>(rows.count() * row_bytes)},
            rows.count(),
            stored.cols,
            stored.element};
        if (rows.count() > 0) copied += take_columns(tensor, expected, expert, slice, theirs, rows.begin, counts);
      }
      exchange_->next();
    }
    return copied;
  }

  // This rank's columns of rows that lie in shared memory; they become rows from `first_row` on of the matrix.
  std::uint64_t take_columns(const PlannedTensor& tensor, const ExpectedTensor& expected, std::int64_t expert,
                             const RoleSlice& slice, const StoredTensor& rows, std::int64_t first_row,
                             LoadedBytes& counts) {
    PackedMatrix& matrix = *weights_.target(expected, expert).matrix;
    std::uint64_t copied = 0;
    for (const Piece& piece : slice.pieces) {
      const StoredMatrix part = rows.part(tensor, 1, piece);
      backend_.load_matrix(matrix, first_row, piece.to, part);
      counts.owned += owned_share(matrix, part);
      copied += static_cast<std::uint64_t>(part.rows * part.cols * rows.element);
    }
    return copied;
  }

  // A matrix that several tensors fill is shared out by elements.
  static std::uint64_t owned_share(const PackedMatrix& matrix, const StoredMatrix& part) {
    const auto all = static_cast<double>(matrix.spec().rows * matrix.spec().cols);
    return static_cast<std::uint64_t>(static_cast<double>(matrix.bytes()) * static_cast<double>(part.rows * part.cols) /
                                      all);
  }

  std::uint64_t copy_pieces(const PlannedTensor& tensor, const ExpectedTensor& expected, std::int64_t expert,
                            const RoleSlice& slice, const StoredTensor& stored) {
    const WeightTarget target = weights_.target(expected, expert);
    LoadedBytes& counts = report_.by_class[class_of_.at(tensor.role)];
    std::uint64_t copied = 0;
    for (const Piece& piece : slice.pieces) {
      const StoredMatrix part = stored.part(tensor, slice.axis, piece);
      const auto elements = static_cast<std::uint64_t>(part.rows * part.cols);
      copied += elements * static_cast<std::uint64_t>(stored.element);
      counts.touched += touched_bytes(part, stored.element);
      verify(file(tensor.file), tensor, part);
      if (target.vector) {
        copy_vector(backend_, *target.vector, target.row + piece.to, part);
        counts.owned += elements * sizeof(float);
        continue;
      }
      const std::int64_t first_row = target.row + (slice.axis == 0 ? piece.to : 0);
      backend_.load_matrix(*target.matrix, first_row, slice.axis == 1 ? piece.to : 0, part);
      counts.owned += owned_share(*target.matrix, part);
    }
    counts.read += copied;
    return copied;
  }

  Backend& backend_;
  const ModelSpec& spec_;
  const ShardingPlan& plan_;
  int rank_;
  RankWeights& weights_;
  HostExchange* exchange_;
  bool verify_finite_;
  bool abandoned_ = false;  ///< another rank of the host has failed
  std::vector<MappedFile> files_;
  std::map<std::string, std::size_t> class_of_;
  LoadReport report_;
};

}  // namespace

LoadReport load_weights(Backend& backend, const ModelSpec& spec, const ShardingPlan& plan, int rank,
                        RankWeights& weights, HostExchange* exchange, const LoadProgress& progress,
                        bool verify_finite) {
  try {
    return Loader(backend, spec, plan, rank, weights, exchange, verify_finite).run(progress);
  } catch (...) {
    if (exchange) exchange->fail();
    throw;
  }
}

}  // namespace tpinfer
