#include "nccl.h"

#include <unistd.h>

#include <cstdio>
#include <random>

#include "nccl_call.hpp"

namespace cuda_emulation {
struct NcclComm {
  std::shared_ptr<CommState> state;
  bool blocking = true;
  bool starting = true;  // not all ranks are known to be there
  bool finalizing = false;
  bool in_progress = false;  // a call said so, and nobody has asked since
  std::vector<std::shared_ptr<Stream>> streams;
};

namespace {

struct GroupedCall {
  ncclComm_t comm;
  Call call;
  cudaStream_t stream;
};
thread_local int group_depth = 0;
thread_local std::vector<GroupedCall> group;

ncclResult_t injected(const char* name) {
  const char* fault = world().faults.visit(name);
  if (!fault) return ncclSuccess;
  return std::string(fault) == "ncclSystemError" ? ncclSystemError : ncclInternalError;
}

bool is_device_memory(const void* data, std::size_t bytes) {
  Device* device = world().device_of(data);
  const Allocation* allocation = device ? device->memory->find(data) : nullptr;
  return bytes == 0 ||
         (allocation && static_cast<const std::byte*>(data) + bytes <= allocation->data + allocation->bytes);
}

bool in_device_memory(const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  const auto ranks = static_cast<std::size_t>(call.comm->ranks);
  const bool reads = call.kind != Kind::receive && (call.kind != Kind::broadcast || call.peer == call.comm->rank);
  const bool writes = call.kind != Kind::send;
  return (!reads || is_device_memory(call.from, call.kind == Kind::reduce_scatter ? bytes * ranks : bytes)) &&
         (!writes || is_device_memory(call.to, call.kind == Kind::all_gather ? bytes * ranks : bytes));
}

// Calls of one group run side by side.
ncclResult_t enqueue_together(ncclComm_t comm, const std::vector<Call>& calls, cudaStream_t stream) {
  const std::shared_ptr<Stream> target = world().stream(stream);
  const bool counted = target && !target->capture;
  std::vector<std::shared_ptr<RunningCall>> parts;
  for (const Call& call : calls) {
    if (!in_device_memory(call))
      die(std::string("NCCL: ") + kPoints[static_cast<int>(call.kind)] +
          " of memory that is not in one allocation of device memory");
    parts.push_back(std::make_shared<RunningCall>(call, counted));
  }
  CommState& state = *comm->state;
  if (counted) {
    state.pending += parts.size();
    comm->streams.push_back(target);
  }
  const auto done = std::make_shared<std::vector<bool>>(parts.size(), false);
  const cudaError_t status = enqueue(stream, "collective", {.run = [parts, done] {
                                       bool all = true;
                                       for (std::size_t i = 0; i < parts.size(); ++i) {
                                         if (!(*done)[i]) (*done)[i] = parts[i]->run() == Progress::moved;
                                         all = all && (*done)[i];
                                       }
                                       if (all) done->assign(parts.size(), false);
                                       return all ? Progress::moved : Progress::waiting;
                                     }});
  if (status != cudaSuccess) return ncclUnhandledCudaError;
  comm->in_progress = !comm->blocking;
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t add(const char* name, ncclComm_t comm, Call call, cudaStream_t stream) {
  std::unique_lock lock(world().lock);
  if (const ncclResult_t fault = injected(name); fault != ncclSuccess) return fault;
  if (!comm || comm->starting || comm->in_progress || comm->finalizing) return ncclInvalidUsage;
  if (world().sticky != cudaSuccess) return ncclUnhandledCudaError;
  if (comm->state->error != ncclSuccess) return comm->state->error;
  call.comm = comm->state;
  if (call.peer < 0 || call.peer >= comm->state->ranks) return ncclInvalidArgument;
  if (group_depth == 0) return enqueue_together(comm, {call}, stream);
  group.push_back({comm, std::move(call), stream});
  return ncclSuccess;
}

const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::unique_lock lock(world().lock);
  if (const ncclResult_t fault = injected("ncclGetUniqueId"); fault != ncclSuccess) return fault;
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/tpinfer-emulated-nccl-%08x%08x", random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  std::unique_lock lock(world().lock);
  *comm = nullptr;
  if (const ncclResult_t fault = injected("ncclCommInitRank"); fault != ncclSuccess) return fault;
  if (ranks < 1 || ranks > NcclSegment::kMostRanks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (world().devices.empty()) return ncclUnhandledCudaError;
  const Device& device = world().start(current_device());
  auto state = std::make_shared<CommState>();
  state->ranks = ranks;
  state->rank = rank;
  state->segment = std::make_unique<NcclSegment>(id.internal, ranks, rank, device.config.host_index);
  *comm = new NcclComm{.state = std::move(state), .blocking = !config || config->blocking != 0, .streams = {}};
  if (ranks > 1) start_engine();
  if (!(*comm)->blocking) return ncclInProgress;
  const std::uint64_t own_world = world_number();
  const std::shared_ptr<CommState> started = (*comm)->state;
  lock.unlock();
  while (!started->segment->complete()) {
    if (world_number() != own_world) return ncclInternalError;  // a test has given the call up
    usleep(200);
  }
  ncclResult_t result = ncclSuccess;
  ncclCommGetAsyncError(*comm, &result);
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  std::unique_lock lock(world().lock);
  if (!comm) return ncclInvalidArgument;
  CommState& state = *comm->state;
  if (comm->starting && state.segment->complete()) {
    comm->starting = false;
    if (state.segment->same_gpu_twice()) state.error = ncclInvalidUsage;
  }
  comm->in_progress = false;
  if (comm->finalizing && state.pending > 0)
    for (const auto& stream : comm->streams)
      if (thread_drives() && run_one(stream)) break;
  *error = state.error != ncclSuccess                                  ? state.error
           : comm->starting || (comm->finalizing && state.pending > 0) ? ncclInProgress
                                                                       : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::unique_lock lock(world().lock);
  comm->finalizing = true;
  return comm->state->pending > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::unique_lock lock(world().lock);
  if (comm->state->pending > 0) die("NCCL: a communicator is destroyed while its collectives are under way");
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::unique_lock lock(world().lock);
  comm->state->aborted = true;  // what waits in streams ends without having done its work
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->state->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->state->rank;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return add("ncclAllReduce", comm, {Kind::all_reduce, {}, bytes_of(from), bytes_of(to), count, type, op, 0}, stream);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return add("ncclReduceScatter", comm, {Kind::reduce_scatter, {}, bytes_of(from), bytes_of(to), count, type, op, 0},
             stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add("ncclAllGather", comm, {Kind::all_gather, {}, bytes_of(from), bytes_of(to), count, type, ncclSum, 0},
             stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add("ncclBroadcast", comm, {Kind::broadcast, {}, bytes_of(from), bytes_of(to), count, type, ncclSum, root},
             stream);
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add("ncclSend", comm, {Kind::send, {}, bytes_of(from), nullptr, count, type, ncclSum, peer}, stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add("ncclRecv", comm, {Kind::receive, {}, nullptr, bytes_of(to), count, type, ncclSum, peer}, stream);
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0 || group.empty()) return ncclSuccess;
  std::unique_lock lock(world().lock);
  std::vector<GroupedCall> calls = std::move(group);
  group.clear();
  std::vector<Call> together;
  for (const GroupedCall& grouped : calls) {
    if (grouped.comm != calls[0].comm || grouped.stream != calls[0].stream)
      die("NCCL: the emulation knows only groups of one communicator and one stream");
    together.push_back(grouped.call);
  }
  return enqueue_together(calls[0].comm, together, calls[0].stream);
}
