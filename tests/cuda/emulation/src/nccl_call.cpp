#include "nccl_call.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace cuda_emulation {
namespace {

template <class T>
T combined(T a, T b, ncclRedOp_t op) {
  return op == ncclMax ? (a < b ? b : a) : op == ncclMin ? (b < a ? b : a) : op == ncclProd ? T(a * b) : T(a + b);
}

// In a ring, which rank's part comes first depends on where an element stands; every rank gets the same.
template <class T>
void reduce(const CommState& comm, std::size_t first, std::size_t count, ncclRedOp_t op, T* to) {
  const auto ranks = static_cast<std::size_t>(comm.ranks);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t start = (first + i) / 256 % ranks;
    T sum{};
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto rank = static_cast<int>((start + r) % ranks);
      const T value = reinterpret_cast<const T*>(comm.segment->chunk(comm.round, rank))[i];
      sum = r == 0 ? value : combined(sum, value, op);
    }
    to[i] = sum;
  }
}

void reduce(const CommState& comm, std::size_t first, std::size_t count, const Call& call, std::byte* to) {
  switch (call.type) {
    case ncclFloat32: return reduce(comm, first, count, call.op, reinterpret_cast<float*>(to));
    case ncclFloat64: return reduce(comm, first, count, call.op, reinterpret_cast<double*>(to));
    case ncclInt32: return reduce(comm, first, count, call.op, reinterpret_cast<std::int32_t*>(to));
    case ncclInt64: return reduce(comm, first, count, call.op, reinterpret_cast<std::int64_t*>(to));
    case ncclUint64: return reduce(comm, first, count, call.op, reinterpret_cast<std::uint64_t*>(to));
    case ncclFloat16: return reduce(comm, first, count, call.op, reinterpret_cast<__half*>(to));
    case ncclBfloat16: return reduce(comm, first, count, call.op, reinterpret_cast<__nv_bfloat16*>(to));
    default: die("NCCL: a reduction of a type that the emulation does not know");
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

Progress RunningCall::run() {
  CommState& comm = *call_.comm;
  if (!begun_) {
    begun_ = true;
    if (const char* fault = world().faults.visit(kPoints[static_cast<int>(call_.kind)])) fail(fault);
  }
  if (comm.aborted) return end();
  if (comm.error != ncclSuccess || hangs_) return Progress::waiting;
  const bool ended = call_.kind == Kind::send || call_.kind == Kind::receive ? pass_messages() : run_rounds();
  return ended ? end() : Progress::waiting;
}

void RunningCall::fail(const std::string& error) {
  hangs_ = true;
  if (error == "hang") return;
  call_.comm->error = error == "ncclSystemError"          ? ncclSystemError
                      : error == "ncclRemoteError"        ? ncclRemoteError
                      : error == "ncclUnhandledCudaError" ? ncclUnhandledCudaError
                                                          : ncclInternalError;
}

Progress RunningCall::end() {
  begun_ = posted_ = hangs_ = false;
  done_ = 0;
  if (counted_) --call_.comm->pending;
  ++world().counts.collectives;
  return Progress::moved;
}

bool RunningCall::pass_messages() {
  const std::size_t bytes = call_.count * size_of(call_.type);
  while (done_ < bytes) {
    const std::size_t part = std::min(bytes - done_, NcclSegment::kChunk);
    const bool passed = call_.kind == Kind::send ? call_.comm->segment->try_send(call_.peer, call_.from + done_, part)
                                                 : call_.comm->segment->try_receive(call_.peer, call_.to + done_, part);
    if (!passed) return false;
    done_ += part;
  }
  return true;
}

bool RunningCall::run_rounds() {
  CommState& comm = *call_.comm;
  const std::size_t size = size_of(call_.type);
  const std::size_t most = NcclSegment::kChunk / size;
  const std::size_t all =
      call_.kind == Kind::reduce_scatter ? call_.count * static_cast<std::size_t>(comm.ranks) : call_.count;
  while (done_ < all) {
    const std::size_t part = std::min(all - done_, most);
    if (!posted_) {
      const bool gives = call_.kind != Kind::broadcast || call_.peer == comm.rank;
      comm.segment->post(++comm.round, call_.from + done_ * size, gives ? part * size : 0, claim());
      posted_ = true;
    }
    if (!comm.segment->arrived(comm.round)) return false;
    compare_claims();
    take(part);
    done_ += part;
    posted_ = false;
  }
  return true;
}

void RunningCall::take(std::size_t part) {
  const CommState& comm = *call_.comm;
  const std::size_t size = size_of(call_.type);
  if (call_.kind == Kind::all_reduce) {
    reduce(comm, done_, part, call_, call_.to + done_ * size);
  } else if (call_.kind == Kind::broadcast) {
    std::memcpy(call_.to + done_ * size, comm.segment->chunk(comm.round, call_.peer), part * size);
  } else if (call_.kind == Kind::all_gather) {
    for (int rank = 0; rank < comm.ranks; ++rank)
      std::memcpy(call_.to + (static_cast<std::size_t>(rank) * call_.count + done_) * size,
                  comm.segment->chunk(comm.round, rank), part * size);
  } else {
    std::vector<std::byte> sums(part * size);
    reduce(comm, done_, part, call_, sums.data());
    const std::size_t mine = call_.count * static_cast<std::size_t>(comm.rank);
    for (std::size_t i = 0; i < part; ++i)
      if (done_ + i >= mine && done_ + i < mine + call_.count)
        std::memcpy(call_.to + (done_ + i - mine) * size, &sums[i * size], size);
  }
}

NcclSegment::Claim RunningCall::claim() const {
  return {static_cast<int>(call_.kind), call_.type, call_.kind == Kind::broadcast ? call_.peer : 0, call_.count};
}

void RunningCall::compare_claims() const {
  const CommState& comm = *call_.comm;
  for (int rank = 0; rank < comm.ranks; ++rank) {
    const NcclSegment::Claim& theirs = comm.segment->claim(comm.round, rank);
    if (theirs == claim()) continue;
    die("NCCL: rank " + std::to_string(rank) + " is at " + kPoints[theirs.kind] + " of " +
        std::to_string(theirs.count) + " where rank " + std::to_string(comm.rank) + " is at " +
        kPoints[static_cast<int>(call_.kind)] + " of " + std::to_string(call_.count));
  }
}

}  // namespace cuda_emulation
