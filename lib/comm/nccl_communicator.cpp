#include "comm/nccl_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "comm/nccl_kernels.hpp"
#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kSpans = 256;  // about two steps of a large model: a span is long over when its turn comes again
constexpr std::chrono::microseconds kPoll{100};

double span_seconds(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a collective");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options)
    : rank_(comm.rank()),
      size_(comm.size()),
      stream_(static_cast<cudaStream_t>(queue.stream)),
      timeout_(options.timeout),
      most_partials_(options.most_partials),
      most_gathered_(options.most_gathered) {
  together(comm, "starting NCCL", [&] {
    check(cudaSetDevice(queue.device), fmt::format("starting CUDA device {}", queue.device));
    allocate(options);
  });
  connect(comm);
}

NcclCommunicator::~NcclCommunicator() {
  if (!nccl_ || failed_) return;  // the handle's own end is ncclCommAbort
  try {
    settle(ncclCommFinalize(nccl_.get()), "ending NCCL");
    static_cast<void>(ncclCommDestroy(nccl_.release()));
  } catch (const Error&) {  // aborted instead
  }
}

void NcclCommunicator::allocate(const DeviceCommunicatorOptions& options) {
  const auto doubles = checked_cast<std::size_t>(options.most_partials);
  const auto floats = checked_cast<std::size_t>(options.most_gathered) * static_cast<std::size_t>(size_);
  partials_ = allocate_cuda(doubles * sizeof(double), stream_);
  if (rank_ == 0) gathered_ = allocate_cuda(floats * sizeof(float), stream_);
  beyond_ = allocate_cuda(sizeof(unsigned long long), stream_);
  spans_.resize(kSpans);
  for (Span& span : spans_) span = {make_event(EventKind::timing), make_event(EventKind::timing)};
}

void NcclCommunicator::connect(Communicator& comm) {
  ncclUniqueId id{};
  together(comm, "making the NCCL id", [&] {
    if (rank_ == 0) settle(ncclGetUniqueId(&id), "making the NCCL id");
  });
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  comm.broadcast(bytes, 0, "sending the NCCL id");
  std::memcpy(&id, bytes.data(), sizeof id);

  together(comm, "connecting by NCCL", [&] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t handle = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&handle, size_, id, rank_, &config);
    nccl_ = NcclHandle(handle);
    settle(result, "connecting by NCCL");
  });
}

void NcclCommunicator::settle(ncclResult_t result, std::string_view what) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (result == ncclInProgress) {
    if (std::chrono::steady_clock::now() > deadline) {
      failed_ = true;
      throw Error(ExitCode::communication,
                  fmt::format("{} took more than {:.0f} s on rank {} of {}", what, timeout_.count(), rank_, size_),
                  "look for a rank that ended, or raise run.collective_timeout");
    }
    std::this_thread::sleep_for(kPoll);
    if (const ncclResult_t asked = ncclCommGetAsyncError(nccl_.get(), &result); asked != ncclSuccess) result = asked;
  }
  if (result == ncclSuccess) return;
  failed_ = true;
  throw Error(ExitCode::communication,
              fmt::format("{} failed on rank {} of {}: NCCL reports \"{}\" {}", what, rank_, size_,
                          ncclGetErrorString(result), ncclGetLastError(nccl_.get())),
              "the environment variable NCCL_DEBUG=WARN makes NCCL tell more");
}

void NcclCommunicator::require_healthy(std::string_view what) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(nccl_.get(), &state);
  settle(asked == ncclSuccess ? state : asked, what);
}

NcclCommunicator::Span& NcclCommunicator::begin_span() {
  Span& span = spans_[next_span_];
  next_span_ = (next_span_ + 1) % spans_.size();
  if (span.pending) {
    check(cudaEventSynchronize(span.end.get()), "waiting for a collective");
    stats_.seconds += span_seconds(span.begin.get(), span.end.get());
    span.pending = false;
  }
  check(cudaEventRecord(span.begin.get(), stream_), "timing a collective");
  return span;
}

void NcclCommunicator::end_span(Span& span, std::uint64_t bytes) {
  check(cudaEventRecord(span.end.get(), stream_), "timing a collective");
  span.pending = true;
  ++stats_.collectives;
  stats_.bytes += bytes;
}

void NcclCommunicator::reduce(std::int64_t count, float* total) {
  if (count > most_partials_)
    throw Error(ExitCode::internal,
                fmt::format("a reduction of {} numbers does not fit in room for {}", count, most_partials_));
  require_healthy("a reduction");
  Span& span = begin_span();
  const auto numbers = checked_cast<std::size_t>(count);
  settle(ncclAllReduce(partials(), partials(), numbers, ncclDouble, ncclSum, nccl_.get(), stream_), "a reduction");
  check(cuda::round_totals(partials(), count, total, static_cast<unsigned long long*>(beyond_.get()), stream_),
        "rounding the totals");
  end_span(span, size_ > 1 ? numbers * sizeof(double) : 0);
}

void NcclCommunicator::gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                                      float* out) {
  const auto floats = [&](int rank) {
    return checked_cast<std::size_t>(rows * widths[static_cast<std::size_t>(rank)]);
  };
  const auto slot = checked_cast<std::size_t>(most_gathered_);
  for (int r = 0; r < size_; ++r)
    if (floats(r) > slot)
      throw Error(ExitCode::internal,
                  fmt::format("rank {} gathers {} numbers, but there is room for {}", r, floats(r), slot));
  require_healthy("a gather");
  Span& span = begin_span();
  settle(ncclGroupStart(), "a gather");
  if (rank_ == 0) {
    auto* staged = static_cast<float*>(gathered_.get());
    for (int r = 1; r < size_; ++r)
      if (floats(r) > 0)
        settle(ncclRecv(staged + static_cast<std::size_t>(r) * slot, floats(r), ncclFloat, r, nccl_.get(), stream_),
               "a gather");
  } else if (floats(rank_) > 0) {
    settle(ncclSend(local, floats(rank_), ncclFloat, 0, nccl_.get(), stream_), "a gather");
  }
  settle(ncclGroupEnd(), "a gather");
  if (rank_ == 0) place_blocks(local, rows, widths, out);
  end_span(span, rank_ == 0 ? 0 : floats(rank_) * sizeof(float));
}

void NcclCommunicator::place_blocks(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                                    float* out) {
  std::int64_t all = 0;
  for (const std::int64_t width : widths) all += width;
  const auto pitch = checked_cast<std::size_t>(all) * sizeof(float);
  std::int64_t first = 0;
  for (int r = 0; r < size_; ++r) {
    const std::int64_t width = widths[static_cast<std::size_t>(r)];
    const auto bytes = checked_cast<std::size_t>(width) * sizeof(float);
    const float* block = r == 0 ? local : static_cast<const float*>(gathered_.get()) + r * most_gathered_;
    if (bytes > 0 && rows > 0)
      check(cudaMemcpy2DAsync(out + first, pitch, block, bytes, bytes, checked_cast<std::size_t>(rows),
                              cudaMemcpyDeviceToDevice, stream_),
            "placing gathered columns");
    first += width;
  }
}

CommunicationStats NcclCommunicator::stats() const {
  CommunicationStats result = stats_;
  unsigned long long beyond = 0;
  check(cudaMemcpyAsync(&beyond, beyond_.get(), sizeof beyond, cudaMemcpyDeviceToHost, stream_),
        "reading the counters of NCCL");
  check(cudaStreamSynchronize(stream_), "waiting for collectives");
  for (const Span& span : spans_)
    if (span.pending) result.seconds += span_seconds(span.begin.get(), span.end.get());
  result.beyond_exact = beyond;
  return result;
}

std::string nccl_version() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) return {};
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace tpinfer
