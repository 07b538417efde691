/* What differs between compilers. */
#ifndef DISCREET_PORTABLE_H
#define DISCREET_PORTABLE_H

#include <stdint.h>

/* A second copy of a function for wide vector units, and a third for the widest where that pays, chosen when
   the module is loaded. Contraction to fused operations is off, so that all copies compute the same bits. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define DISCREET_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DISCREET_CLONES
#endif
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define DISCREET_WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define DISCREET_WIDE_CLONES DISCREET_CLONES
#endif

#if defined(_MSC_VER)
#define DISCREET_INLINE static __forceinline
#define DISCREET_INLINED
#else
#define DISCREET_INLINE static inline __attribute__((always_inline))
/* A function that is compiled into each caller, so that literal arguments of the call are constants in it. */
#define DISCREET_INLINED __attribute__((always_inline))
#endif

/* The upper and the lower 64 bits of a product of two unsigned numbers. */
#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
DISCREET_INLINE uint64_t discreet_product(uint64_t first, uint64_t second, uint64_t *lower) {
    uint64_t upper;
    *lower = _umul128(first, second, &upper);
    return upper;
}
#elif defined(_MSC_VER)
#include <intrin.h>
DISCREET_INLINE uint64_t discreet_product(uint64_t first, uint64_t second, uint64_t *lower) {
    *lower = first * second;
    return __umulh(first, second);
}
#else
DISCREET_INLINE uint64_t discreet_product(uint64_t first, uint64_t second, uint64_t *lower) {
    unsigned __int128 product = (unsigned __int128)first * second;
    *lower = (uint64_t)product;
    return (uint64_t)(product >> 64);
}
#endif

#endif
