# Included once by the top CMakeLists.txt (languages must be enabled there). Decides for the whole build whether there is
# CUDA and NCCL: sets TPINFER_HAVE_CUDA and TPINFER_HAVE_NCCL, which choose source files and nothing else.
set(TPINFER_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
  "GPU architectures to compile for; code for the last one also goes in as PTX for newer GPUs")
set(TPINFER_HAVE_CUDA OFF)
set(TPINFER_HAVE_NCCL OFF)

# No CUDA for `reason`: an error when it was asked for by name.
macro(tpinfer_without_cuda reason)
  if(TPINFER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TPINFER_CUDA=ON, but ${reason}. Install the CUDA toolkit 12.8 or newer, or configure with "
      "-DTPINFER_CUDA=OFF.")
  endif()
  message(STATUS "CUDA backend: not built (${reason})")
  return()
endmacro()

if(NOT TPINFER_CUDA MATCHES "^(AUTO|ON|OFF|EMULATE)$")
  message(FATAL_ERROR "TPINFER_CUDA=${TPINFER_CUDA} is none of AUTO, ON, OFF and EMULATE.")
endif()
# The tests' emulation of CUDA (tests/cuda/emulation) is built beside; with EMULATE it is all there is.
set(TPINFER_EMULATION OFF)
if(TPINFER_TESTS AND NOT TPINFER_SANITIZE)
  set(TPINFER_EMULATION ON)
endif()
if(TPINFER_CUDA STREQUAL "EMULATE")
  set(TPINFER_EMULATION ON)
  set(TPINFER_HAVE_CUDA ON)
  set(TPINFER_HAVE_NCCL ON)
  message(STATUS "CUDA backend: on an emulation of CUDA, for tests")
  return()
endif()
if(TPINFER_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: not built (TPINFER_CUDA=OFF)")
  return()
endif()
if(TPINFER_SANITIZE AND TPINFER_CUDA STREQUAL "AUTO")
  tpinfer_without_cuda("TPINFER_SANITIZE=${TPINFER_SANITIZE}")
endif()

find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
  tpinfer_without_cuda("the CUDA toolkit with nvcc, cudart and cuBLASLt was not found")
endif()
if(CUDAToolkit_VERSION VERSION_LESS 12.8)
  tpinfer_without_cuda("the CUDA toolkit in ${CUDAToolkit_BIN_DIR} is version ${CUDAToolkit_VERSION}")
endif()

# The toolkit's nvcc with this build's C++ compiler, unless the user names others.
if(NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
  set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
endif()
if(NOT DEFINED ENV{CUDAHOSTCXX} AND NOT CMAKE_CUDA_HOST_COMPILER)
  set(ENV{CUDAHOSTCXX} "${CMAKE_CXX_COMPILER}")
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  tpinfer_without_cuda("nvcc of the toolkit in ${CUDAToolkit_BIN_DIR} does not work with ${CMAKE_CXX_COMPILER}")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "${TPINFER_CUDA_ARCHITECTURES}")
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know yet that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(TPINFER_HAVE_CUDA ON)

# As for C++: no contraction, since a kernel that wants fma writes it.
target_compile_options(tpinfer_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xcompiler=-Wall,-Wextra>)
if(TPINFER_WERROR)
  target_compile_options(tpinfer_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror --Werror=all-warnings>)
endif()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  set(TPINFER_HAVE_NCCL ON)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}, "
  "NCCL ${TPINFER_HAVE_NCCL}")
