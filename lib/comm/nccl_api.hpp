#pragma once

#include <nccl.h>

#include <string>

namespace tpinfer {

/// The functions of NCCL that are called. The library is opened when GPUs are first to be connected, so that the
/// program starts, and its runs on one GPU or on the CPU work, where there is none.
struct NcclApi {
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_text = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGetUniqueId) make_id = nullptr;
  decltype(&ncclCommInitRank) connect = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) give_up = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) begin_group = nullptr;
  decltype(&ncclGroupEnd) end_group = nullptr;

  std::string missing;  ///< why there is no library; empty: all functions are there
};

/// Opened at the first call (nccl_open.cpp). (Tests link another definition, of the emulation's functions.)
const NcclApi& nccl_api();

}  // namespace tpinfer
