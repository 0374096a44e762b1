# Collectives over GPUs. NCCL is opened when it is wanted (nccl_api.hpp); the tests' emulation is linked.
set(nccl_sources no_nccl.cpp)
if(TPINFER_HAVE_NCCL)
  set(nccl_sources nccl_communicator.cpp nccl_watch.cpp nccl_open.cpp)
endif()
tpinfer_gpu_library(comm_gpu comm
  SOURCES cuda_communicator.cpp cuda_sums.cu
  REAL ${nccl_sources}
  EMULATED nccl_communicator.cpp nccl_watch.cpp nccl_linked.cpp
  NONE no_cuda_communicator.cpp
  LIBS tpinfer_core tpinfer_comm)
if(TPINFER_HAVE_NCCL AND NOT TPINFER_CUDA STREQUAL "EMULATE")
  target_include_directories(tpinfer_comm_gpu SYSTEM PUBLIC ${NCCL_INCLUDE_DIR})
endif()
