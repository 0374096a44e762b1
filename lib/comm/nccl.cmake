# The GPU communicator; lib/backend/cuda/toolkit.cmake decided whether NCCL is there. As with the CUDA backend, jobs see
# tpinfer_nccl, and tests alone link the device part until the backend that it serves is complete.
tpinfer_library(nccl SOURCES no_nccl.cpp LIBS tpinfer_core)
target_link_libraries(tpinfer_comm PUBLIC tpinfer_nccl)
if(TPINFER_HAVE_NCCL)
  tpinfer_library(nccl_device SOURCES nccl_communicator.cpp nccl_kernels.cu
    LIBS tpinfer_comm tpinfer_core NCCL::nccl CUDA::cudart_static)
endif()
