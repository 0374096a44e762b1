// NCCL where it is part of the program: the tests' emulation.
#include "comm/nccl_api.hpp"

namespace tpinfer {

const NcclApi& nccl_api() {
  static const NcclApi api{.version = ncclGetVersion,
                           .error_text = ncclGetErrorString,
                           .last_error = ncclGetLastError,
                           .make_id = ncclGetUniqueId,
                           .connect = ncclCommInitRank,
                           .destroy = ncclCommDestroy,
                           .give_up = ncclCommAbort,
                           .async_error = ncclCommGetAsyncError,
                           .all_reduce = ncclAllReduce,
                           .all_gather = ncclAllGather,
                           .send = ncclSend,
                           .receive = ncclRecv,
                           .begin_group = ncclGroupStart,
                           .end_group = ncclGroupEnd,
                           .missing = {}};
  return api;
}

}  // namespace tpinfer
