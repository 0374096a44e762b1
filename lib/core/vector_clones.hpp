#pragma once

/// Before a function whose loops are built for several instruction sets, TPINFER_VECTOR_CLONES("avx2", "default"), one
/// of them chosen when the program starts. Sums and conversions of single elements have the same bits in all. Not with
/// the thread sanitizer: the choice is made before that is ready.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define TPINFER_VECTOR_CLONES(...) [[gnu::target_clones(__VA_ARGS__)]]
#else
#define TPINFER_VECTOR_CLONES(...)
#endif
