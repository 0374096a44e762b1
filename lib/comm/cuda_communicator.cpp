#include "comm/cuda_communicator.hpp"

#include <algorithm>

#include "comm/cuda_sums.hpp"
#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kWhere = "setting up the collectives of GPUs";

struct BufferSizes {
  std::size_t partials = 0, gathered = 0, scratch = 0;  ///< bytes
};

BufferSizes buffer_sizes(int rank, int ranks, const DeviceCommunicatorOptions& options) {
  const bool in_place = options.partials == DType::float32 && ranks <= 2;
  BufferSizes sizes;
  if (!in_place) sizes.partials = checked_cast<std::size_t>(options.most_partials) * dtype_size(options.partials);
  if (rank == 0 && ranks > 1) sizes.gathered = checked_cast<std::size_t>(options.most_gathered * ranks) * sizeof(float);
  if (options.partials == DType::float32 && ranks > 2) {
    const std::int64_t at_once = std::min(options.most_partials, kSumAtOnce) * ranks;
    const std::int64_t in_shares = share_of(options.most_partials, ranks) * ranks;
    sizes.scratch = checked_cast<std::size_t>(std::max(at_once, in_shares)) * sizeof(float);
  }
  return sizes;
}

/// One rank: sums are there already.
class SelfCudaCommunicator final : public CudaCommunicator {
 public:
  using CudaCommunicator::CudaCommunicator;
  std::string_view kind() const noexcept override { return "self"; }
  bool capturable() const noexcept override { return true; }

  void reduce(const Tensor& partials, const Tensor& total) override {
    const std::int64_t count = check_count(partials, total);
    if (partials.dtype == DType::float64) round(static_cast<const double*>(partials.data), count, total.floats());
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    place_blocks(local, nullptr, 0, rows, widths, out);
  }
};

/// Without NCCL: through host memory, by a communicator of the host side.
class StagedCommunicator final : public CudaCommunicator {
 public:
  StagedCommunicator(const Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options,
                     std::unique_ptr<DeviceCommunicator> host)
      : CudaCommunicator(comm, queue, options), host_(std::move(host)) {
    total_ =
        allocate_pinned(checked_cast<std::size_t>(std::max<std::int64_t>(options.most_partials, 1)) * sizeof(float));
    block_ =
        allocate_pinned(checked_cast<std::size_t>(std::max<std::int64_t>(options.most_gathered, 1)) * sizeof(float));
  }

  std::string_view kind() const noexcept override { return host_->kind(); }

  void reduce(const Tensor& partials, const Tensor& total) override {
    check_count(partials, total);
    const Tensor host_total{total_.get(), DType::float32, total.rows, total.cols};
    const Tensor host_partials = host_->partials(host_total);
    fetch(host_partials.data, partials.data, partials.bytes());
    host_->reduce(host_partials, host_total);
    check(cudaMemcpyAsync(total.data, total_.get(), total.bytes(), cudaMemcpyHostToDevice, stream()),
          "copying totals to the device");
  }

  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    check_gather(rows, widths);
    const std::int64_t mine = rows * widths[static_cast<std::size_t>(rank())];
    auto* block = reinterpret_cast<float*>(block_.get());
    fetch(block, local, static_cast<std::size_t>(mine) * sizeof(float));
    std::int64_t width = 0;
    for (const std::int64_t w : widths) width += w;
    whole_.resize(static_cast<std::size_t>(rank() == 0 ? rows * width : 0));
    host_->gather_columns(block, rows, widths, whole_.data());
    if (rank() == 0)
      check(cudaMemcpyAsync(out, whole_.data(), whole_.size() * sizeof(float), cudaMemcpyHostToDevice, stream()),
            "copying gathered columns to the device");
  }

  CommunicationStats stats() const override { return host_->stats(); }

 private:
  // Also waits for the last copy out of total_, so that it can be written again.
  void fetch(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "copying partial sums to the host");
    check(cudaStreamSynchronize(stream()), "waiting for partial sums");
  }

  std::unique_ptr<DeviceCommunicator> host_;
  PinnedMemory total_;
  PinnedMemory block_;
  std::vector<float> whole_;
};

std::unique_ptr<HostDeviceCommunicator> make_staged(Communicator& comm, CudaQueue queue, ParallelFor& parallel,
                                                    DeviceCommunicatorOptions options, std::string note) {
  std::unique_ptr<DeviceCommunicator> host = make_host_device_communicator(comm, parallel, options);
  if (!host->note().empty()) note += (note.empty() ? "" : "; ") + std::string(host->note());
  std::unique_ptr<StagedCommunicator> staged;
  together(comm, kWhere, [&] { staged = std::make_unique<StagedCommunicator>(comm, queue, options, std::move(host)); });
  staged->set_note(std::move(note));
  return staged;
}

DeviceCopies device_copies(cudaStream_t stream) {
  const auto copy = [stream](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, stream), "self-test of the collectives");
    check(cudaStreamSynchronize(stream), "self-test of the collectives");
  };
  return {.allocate = [stream](std::size_t bytes) -> std::shared_ptr<void> {
            return std::make_shared<CudaMemory>(allocate_cuda(std::max<std::size_t>(bytes, 1), stream));
          },
          .address = [](const std::shared_ptr<void>& memory) { return static_cast<CudaMemory*>(memory.get())->get(); },
          .upload = [copy](void* to, const void* from,
                           std::size_t bytes) { copy(to, from, bytes, cudaMemcpyHostToDevice); },
          .download = [copy](void* to, const void* from,
                             std::size_t bytes) { copy(to, from, bytes, cudaMemcpyDeviceToHost); }};
}

}  // namespace

std::int64_t share_of(std::int64_t count, int ranks) noexcept {
  constexpr std::int64_t kUnit = 64;  // shares begin at multiples of 256 bytes
  return ((count + ranks - 1) / ranks + kUnit - 1) / kUnit * kUnit;
}

CudaCommunicator::CudaCommunicator(const Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options)
    : HostDeviceCommunicator(options),
      rank_(comm.rank()),
      size_(comm.size()),
      stream_(static_cast<cudaStream_t>(queue.stream)) {
  const BufferSizes sizes = buffer_sizes(rank_, size_, options);
  check(cudaSetDevice(queue.device), fmt::format("starting CUDA device {}", queue.device));
  if (sizes.partials > 0) partials_ = allocate_cuda(sizes.partials, stream_);
  if (sizes.gathered > 0) gathered_ = allocate_cuda(sizes.gathered, stream_);
  if (sizes.scratch > 0) scratch_ = allocate_cuda(sizes.scratch, stream_);
  beyond_ = allocate_cuda(sizeof(unsigned long long), stream_);
}

std::uint64_t CudaCommunicator::device_bytes(int rank, int ranks, const DeviceCommunicatorOptions& options) {
  const BufferSizes sizes = buffer_sizes(rank, ranks, options);
  return sizes.partials + sizes.gathered + sizes.scratch + sizeof(unsigned long long);
}

Tensor CudaCommunicator::partials(const Tensor& total) {
  if (!partials_) return total;
  return {partials_.get(), options_.partials, total.rows, total.cols};
}

bool CudaCommunicator::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &status), "asking whether a graph is captured");
  return status != cudaStreamCaptureStatusNone;
}

void CudaCommunicator::count_call(std::uint64_t bytes) {
  CommunicationStats& where = capturing() ? captured_ : stats_;
  ++where.collectives;
  where.bytes += bytes;
}

CommunicationStats CudaCommunicator::take_captured() { return std::exchange(captured_, {}); }

void CudaCommunicator::launched(const CommunicationStats& captured) {
  stats_.collectives += captured.collectives;
  stats_.bytes += captured.bytes;
}

CommunicationStats CudaCommunicator::stats() const {
  CommunicationStats result = stats_;
  unsigned long long beyond = 0;
  check(cudaMemcpyAsync(&beyond, beyond_.get(), sizeof beyond, cudaMemcpyDeviceToHost, stream_),
        "reading the counters of collectives");
  check(cudaStreamSynchronize(stream_), "waiting for collectives");
  result.beyond_exact = beyond;
  return result;
}

void CudaCommunicator::round(const double* sums, std::int64_t count, float* total) {
  cuda::round_totals(sums, count, total, static_cast<unsigned long long*>(beyond_.get()), stream_);
}

void CudaCommunicator::place_blocks(const float* local, const float* blocks, std::int64_t pitch, std::int64_t rows,
                                    std::span<const std::int64_t> widths, float* out) {
  std::int64_t all = 0;
  for (const std::int64_t width : widths) all += width;
  const auto out_pitch = checked_cast<std::size_t>(all) * sizeof(float);
  std::int64_t first = 0;
  for (int r = 0; r < size_; ++r) {
    const std::int64_t width = widths[static_cast<std::size_t>(r)];
    const auto bytes = checked_cast<std::size_t>(width) * sizeof(float);
    const float* block = r == rank_ ? local : blocks + r * pitch;
    if (bytes > 0 && rows > 0)
      check(cudaMemcpy2DAsync(out + first, out_pitch, block, bytes, bytes, checked_cast<std::size_t>(rows),
                              cudaMemcpyDeviceToDevice, stream_),
            "placing gathered columns");
    first += width;
  }
}

std::uint64_t cuda_communicator_bytes(int rank, int ranks, const DeviceCommunicatorOptions& options) {
  return CudaCommunicator::device_bytes(rank, ranks, options);
}

std::unique_ptr<DeviceCommunicator> make_cuda_communicator(Communicator& comm, CudaQueue queue, ParallelFor& parallel,
                                                           const DeviceCommunicatorOptions& options, bool shared_gpus) {
  std::unique_ptr<DeviceCommunicator> made;
  const bool by_nccl = options.transport == Transport::nccl || options.transport == Transport::automatic;
  if (comm.size() == 1)
    made = std::make_unique<SelfCudaCommunicator>(comm, queue, options);
  else if (by_nccl && (options.transport == Transport::nccl || (nccl_available() && !shared_gpus)))
    made = make_nccl_communicator(comm, queue, options);
  else
    made = make_staged(comm, queue, parallel, options,
                       !by_nccl ? ""
                                : "ranks communicate through host memory: " +
                                      (shared_gpus ? "ranks share a GPU, which NCCL does not do" : nccl_reason()));
  self_test(comm, *made, options, device_copies(static_cast<cudaStream_t>(queue.stream)));
  return made;
}

}  // namespace tpinfer
