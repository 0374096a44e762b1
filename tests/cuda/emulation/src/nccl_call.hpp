#pragma once

#include <memory>
#include <string>

#include "nccl.h"
#include "nccl_segment.hpp"
#include "world.hpp"

namespace cuda_emulation {

/// What operations keep of a communicator; it may be gone when they run.
struct CommState {
  std::unique_ptr<NcclSegment> segment;
  int ranks = 1, rank = 0;
  std::uint64_t round = 0;    // of the last collective that ended, or is under way
  std::uint64_t pending = 0;  // operations enqueued and not ended
  ncclResult_t error = ncclSuccess;
  bool aborted = false;
};

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };
inline constexpr const char* kPoints[] = {"allReduce", "reduceScatter", "allGather", "broadcast", "send", "recv"};

struct Call {
  Kind kind;
  std::shared_ptr<CommState> comm;
  const std::byte* from;
  std::byte* to;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;  // or root
};

std::size_t size_of(ncclDataType_t type);

/// One call as it runs: called again until it has ended, and afresh for each launch of a graph.
class RunningCall {
 public:
  /// counted: CommState::pending holds it.
  RunningCall(Call call, bool counted) : call_(std::move(call)), counted_(counted) {}
  Progress run();

 private:
  void fail(const std::string& error);
  Progress end();
  bool pass_messages();
  bool run_rounds();
  void take(std::size_t part);
  NcclSegment::Claim claim() const;
  void compare_claims() const;

  Call call_;
  bool counted_;
  std::size_t done_ = 0;  // elements, or bytes of a message
  bool begun_ = false, posted_ = false, hangs_ = false;
};

}  // namespace cuda_emulation
