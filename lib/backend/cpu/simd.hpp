#pragma once

/// Vectors of 16 float32 lanes for the kernels that are compiled once per kernel set.
///
/// A kernels_*.cpp defines TPINFER_SIMD (0 plain C++, 1 AVX2, 2 AVX-512) before anything else; without it one gets
/// plain C++. All of it, and all that is built on it, has internal linkage: code compiled for one processor must never
/// be merged by the linker with code for another. For the same reason these files call no inline function of the
/// standard library.
///
/// Whatever the registers are, there are always 16 lanes and one order of a sum over them: lane i is added to lane i +
/// 8, then i + 4, i + 2, i + 1.
#ifndef TPINFER_SIMD
#define TPINFER_SIMD 0
#endif

#if TPINFER_SIMD == 0
#include "backend/cpu/simd_scalar.hpp"
#elif TPINFER_SIMD == 1
#include "backend/cpu/simd_avx2.hpp"
#else
#include "backend/cpu/simd_avx512.hpp"
#endif
