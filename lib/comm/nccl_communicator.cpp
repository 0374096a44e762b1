#include "comm/nccl_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <future>

#include "comm/cuda_sums.hpp"
#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

constexpr const char* kDebugHint = "the environment variable NCCL_DEBUG=WARN makes NCCL tell more";
constexpr const char* kMissingHint = "look for a rank that ended, or raise run.collective_timeout";

double span_seconds(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0.0F;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a collective");
  return static_cast<double>(milliseconds) * 1e-3;
}

// Elements [first, first + count) of `all` that rank `rank` sums.
struct Share {
  std::int64_t first = 0, count = 0;
};
Share share(std::int64_t all, int ranks, int rank) {
  const std::int64_t size = share_of(all, ranks);
  const std::int64_t first = std::min(all, size * rank);
  return {first, std::min(size, all - first)};
}

}  // namespace

NcclCommunicator::NcclCommunicator(const Communicator& comm, CudaQueue queue, const DeviceCommunicatorOptions& options)
    : CudaCommunicator(comm, queue, options), api_(nccl_api()), timeout_(options.timeout) {
  for (Span& span : spans_) {
    span.begin = make_event(EventKind::timing);
    span.end = make_event(EventKind::timing);
  }
  check(cudaStreamSynchronize(stream()), "waiting for the buffers of collectives");
}

NcclCommunicator::~NcclCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (!nccl_) return;
  bool over = true;
  for (const Span& span : spans_) over = over && (!span.pending || cudaEventQuery(span.end.get()) == cudaSuccess);
  // What is still under way waits for ranks that may be gone: the orderly end would wait with it.
  static_cast<void>(over ? api_.destroy(nccl_) : api_.give_up(nccl_));
}

void NcclCommunicator::connect(Communicator& comm, int device) {
  ncclUniqueId id{};
  together(comm, "making the NCCL id", [&] {
    if (rank() == 0) call("making the NCCL id", [&] { return api_.make_id(&id); });
  });
  std::vector<std::byte> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  comm.broadcast(bytes, 0, "sending the NCCL id");
  std::memcpy(&id, bytes.data(), sizeof id);

  together(comm, "connecting by NCCL", [&] {
    // In a thread of its own, which is left behind when a rank never comes: the call itself knows no timeout.
    struct Outcome {
      ncclResult_t result = ncclSuccess;
      ncclComm_t made = nullptr;
    };
    std::promise<Outcome> promise;
    std::future<Outcome> outcome = promise.get_future();
    std::thread([&api = api_, ranks = size(), rank = rank(), id, device, promise = std::move(promise)]() mutable {
      Outcome reached;
      reached.result =
          cudaSetDevice(device) == cudaSuccess ? api.connect(&reached.made, ranks, id, rank) : ncclUnhandledCudaError;
      promise.set_value(reached);
    }).detach();
    if (outcome.wait_for(timeout_) != std::future_status::ready)
      throw Error(
          ExitCode::communication,
          fmt::format("connecting by NCCL took more than {:.0f} s on rank {} of {}", timeout_.count(), rank(), size()),
          kMissingHint);
    const Outcome reached = outcome.get();
    call("connecting by NCCL", [&] { return reached.result; });
    nccl_ = reached.made;
  });
  watcher_ = std::thread([this, device] { watch(device); });
}

template <class Call>
void NcclCommunicator::call(std::string_view what, Call&& enqueue) {
  const ncclResult_t result = enqueue();
  throw_if_failed();
  if (result == ncclSuccess) return;
  const char* detail = api_.last_error(nccl_);
  throw Error(ExitCode::communication,
              fmt::format("{} failed on rank {} of {}: NCCL reports \"{}\" {}", what, rank(), size(),
                          api_.error_text(result), detail ? detail : ""),
              kDebugHint);
}

template <class Work>
void NcclCommunicator::enqueue(std::string_view what, std::uint64_t bytes, Work&& work) {
  throw_if_failed();
  const bool captured = capturing();
  if (!captured) begin_span(true);
  {
    const std::lock_guard lock(in_nccl_);
    throw_if_failed();
    call(what, std::forward<Work>(work));
  }
  if (!captured) end_span();
  count_call(bytes);
}

void NcclCommunicator::throw_if_failed() {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  throw Error(ExitCode::communication, failure_, kMissingHint);
}

void NcclCommunicator::reduce(const Tensor& partials, const Tensor& total) {
  const std::int64_t count = check_count(partials, total);
  const auto numbers = checked_cast<std::size_t>(count);
  if (partials.dtype == DType::float32 && size() > 2) {
    add_in_order(partials.floats(), total.floats(), count);
    return;
  }
  const bool exact = partials.dtype == DType::float64;
  enqueue("a reduction", partials.bytes(), [&] {
    return api_.all_reduce(partials.data, partials.data, numbers, exact ? ncclDouble : ncclFloat, ncclSum, nccl_,
                           stream());
  });
  if (exact) round(static_cast<const double*>(partials.data), count, total.floats());
}

void NcclCommunicator::add_in_order(float* partials, float* total, std::int64_t count) {
  auto* parts = static_cast<float*>(scratch_.get());
  const auto bytes = checked_cast<std::size_t>(count) * sizeof(float);
  if (count <= kSumAtOnce) {
    enqueue("a reduction", bytes, [&] {
      return api_.all_gather(partials, parts, checked_cast<std::size_t>(count), ncclFloat, nccl_, stream());
    });
    cuda::sum_parts(parts, size(), count, count, total, stream());
    return;
  }
  exchange_shares(partials, count);
  const Share own = share(count, size(), rank());
  cuda::sum_parts(parts, size(), share_of(count, size()), own.count, total + own.first, stream());
  collect_shares(total, count);
}

// Every rank gets all parts of its share, side by side in scratch_.
void NcclCommunicator::exchange_shares(const float* partials, std::int64_t count) {
  auto* parts = static_cast<float*>(scratch_.get());
  const Share own = share(count, size(), rank());
  enqueue("a reduction", checked_cast<std::size_t>(count - own.count) * sizeof(float), [&] {
    ncclResult_t result = api_.begin_group();
    for (int r = 0; r < size() && result == ncclSuccess; ++r) {
      const Share theirs = share(count, size(), r);
      if (theirs.count > 0)
        result =
            api_.send(partials + theirs.first, checked_cast<std::size_t>(theirs.count), ncclFloat, r, nccl_, stream());
      if (own.count > 0 && result == ncclSuccess)
        result = api_.receive(parts + r * share_of(count, size()), checked_cast<std::size_t>(own.count), ncclFloat, r,
                              nccl_, stream());
    }
    const ncclResult_t ended = api_.end_group();
    return result == ncclSuccess ? ended : result;
  });
}

void NcclCommunicator::collect_shares(float* total, std::int64_t count) {
  const Share own = share(count, size(), rank());
  enqueue("a reduction", checked_cast<std::size_t>(own.count * (size() - 1)) * sizeof(float), [&] {
    ncclResult_t result = api_.begin_group();
    for (int r = 0; r < size() && result == ncclSuccess; ++r) {
      if (r == rank()) continue;
      const Share theirs = share(count, size(), r);
      if (own.count > 0)
        result = api_.send(total + own.first, checked_cast<std::size_t>(own.count), ncclFloat, r, nccl_, stream());
      if (theirs.count > 0 && result == ncclSuccess)
        result =
            api_.receive(total + theirs.first, checked_cast<std::size_t>(theirs.count), ncclFloat, r, nccl_, stream());
    }
    const ncclResult_t ended = api_.end_group();
    return result == ncclSuccess ? ended : result;
  });
}

void NcclCommunicator::gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                                      float* out) {
  check_gather(rows, widths);
  const auto floats = [&](int rank) {
    return checked_cast<std::size_t>(rows * widths[static_cast<std::size_t>(rank)]);
  };
  auto* blocks = static_cast<float*>(gathered_.get());
  enqueue("a gather", rank() == 0 ? 0 : floats(rank()) * sizeof(float), [&] {
    ncclResult_t result = api_.begin_group();
    for (int r = 1; r < size() && rank() == 0 && result == ncclSuccess; ++r)
      if (floats(r) > 0)
        result = api_.receive(blocks + r * options_.most_gathered, floats(r), ncclFloat, r, nccl_, stream());
    if (rank() > 0 && floats(rank()) > 0) result = api_.send(local, floats(rank()), ncclFloat, 0, nccl_, stream());
    const ncclResult_t ended = api_.end_group();
    return result == ncclSuccess ? ended : result;
  });
  if (rank() == 0) place_blocks(local, blocks, options_.most_gathered, rows, widths, out);
}

// Takes the oldest span; when that one is still pending, waits for it.
void NcclCommunicator::begin_span(bool timed) {
  Span& span = spans_[next_span_];
  bool pending = false;
  {
    const std::lock_guard lock(mutex_);
    pending = span.pending;
  }
  if (pending) {
    check(cudaEventSynchronize(span.end.get()), "waiting for a collective");
    throw_if_failed();
  }
  const std::lock_guard lock(mutex_);
  if (span.pending) take_over(span);
  span.timed = timed;
  if (timed) check(cudaEventRecord(span.begin.get(), stream()), "timing a collective");
}

void NcclCommunicator::end_span() {
  const std::lock_guard lock(mutex_);
  Span& span = spans_[next_span_];
  next_span_ = (next_span_ + 1) % kSpans;
  check(cudaEventRecord(span.end.get(), stream()), "timing a collective");
  span.since = Clock::now();
  span.pending = true;
}

void NcclCommunicator::take_over(Span& span) const {
  if (span.timed) seconds_ += span_seconds(span.begin.get(), span.end.get());
  span.pending = false;
}

void NcclCommunicator::launched(const CommunicationStats& captured) {
  throw_if_failed();
  CudaCommunicator::launched(captured);
  begin_span(false);
  end_span();
}

CommunicationStats NcclCommunicator::stats() const {
  CommunicationStats result = CudaCommunicator::stats();  // waits
  const std::lock_guard lock(mutex_);
  for (Span& span : spans_)
    if (span.pending && cudaEventQuery(span.end.get()) == cudaSuccess) take_over(span);
  result.seconds = seconds_;
  return result;
}

bool nccl_available() { return nccl_api().missing.empty(); }

std::string nccl_reason() { return nccl_api().missing; }

std::string nccl_version() {
  int code = 0;
  if (!nccl_available() || nccl_api().version(&code) != ncclSuccess) return {};
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

std::string nccl_build_version() { return fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH); }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator& comm, CudaQueue queue,
                                                           const DeviceCommunicatorOptions& options) {
  together(comm, "opening NCCL", [] {
    if (!nccl_available())
      throw Error(ExitCode::usage, fmt::format("parallel.communication: nccl cannot be used: {}", nccl_reason()),
                  "put its folder into LD_LIBRARY_PATH, or use parallel.communication: auto");
  });
  std::unique_ptr<NcclCommunicator> made;
  together(comm, "making the buffers of collectives",
           [&] { made = std::make_unique<NcclCommunicator>(comm, queue, options); });
  made->connect(comm, queue.device);
  return made;
}

}  // namespace tpinfer
