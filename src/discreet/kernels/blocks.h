/* Eight numbers at a time. Compilers do not find vectors in these loops, or go through memory the wrong way;
   said as vectors, they stay in registers. The operations and their order are the same everywhere. */
#ifndef DISCREET_BLOCKS_H
#define DISCREET_BLOCKS_H

#include <stddef.h>
#include <string.h>
#include "portable.h"

#if defined(__GNUC__)
typedef double discreet_four __attribute__((vector_size(32), aligned(8)));
#endif

/* Both halves added, then both halves of that, then the last two. */
DISCREET_INLINE double discreet_sum_of_block(const double *block) {
#if defined(__GNUC__)
    discreet_four half = *(const discreet_four *)block + *(const discreet_four *)(block + 4);
    return (half[0] + half[2]) + (half[1] + half[3]);
#else
    return ((block[0] + block[4]) + (block[2] + block[6])) + ((block[1] + block[5]) + (block[3] + block[7]));
#endif
}

#endif
