#pragma once

/// Before a function whose loops are built for two instruction sets, one of them chosen when the program starts. Sums
/// and conversions of single elements have the same bits in both.
#if defined(__x86_64__)
#define TPINFER_VECTOR_CLONES [[gnu::target_clones("avx2", "default")]]
#else
#define TPINFER_VECTOR_CLONES
#endif
