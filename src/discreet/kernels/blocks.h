/* Eight numbers at a time. Compilers do not find vectors in these loops, or go through memory the wrong way;
   said as vectors, they stay in registers. The operations and their order are the same everywhere. */
#ifndef DISCREET_BLOCKS_H
#define DISCREET_BLOCKS_H

#include <stddef.h>
#include <string.h>
#include "portable.h"

#if defined(__GNUC__)
typedef double discreet_four __attribute__((vector_size(32), aligned(8)));
typedef double discreet_eight __attribute__((vector_size(64), aligned(8)));
#define DISCREET_LOAD(place) (*(const discreet_eight *)(place))
#define DISCREET_STORE(place, block) (*(discreet_eight *)(place) = (block))
#define DISCREET_TIMES(block, number) ((block) * (number))
#define DISCREET_PLUS(block, other) ((block) + (other))
#define DISCREET_MINUS(block, other) ((block) - (other))
#else
typedef struct {
    double lane[8];
} discreet_eight;
#define DISCREET_EACH(result, expression) \
    discreet_eight result; \
    for (int i = 0; i < 8; i++) result.lane[i] = (expression)
DISCREET_INLINE discreet_eight DISCREET_LOAD(const double *place) {
    DISCREET_EACH(found, place[i]);
    return found;
}
DISCREET_INLINE void DISCREET_STORE(double *place, discreet_eight block) {
    memcpy(place, block.lane, sizeof block.lane);
}
DISCREET_INLINE discreet_eight DISCREET_TIMES(discreet_eight block, double number) {
    DISCREET_EACH(found, block.lane[i] * number);
    return found;
}
DISCREET_INLINE discreet_eight DISCREET_PLUS(discreet_eight block, discreet_eight other) {
    DISCREET_EACH(found, block.lane[i] + other.lane[i]);
    return found;
}
DISCREET_INLINE discreet_eight DISCREET_MINUS(discreet_eight block, discreet_eight other) {
    DISCREET_EACH(found, block.lane[i] - other.lane[i]);
    return found;
}
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

/* out = vector + sum(weights * buffers); then buffers = decays * buffers + vector. */
DISCREET_INLINE void discreet_encode_block(
    double *buffers, ptrdiff_t stride, ptrdiff_t count, const double *decays, const double *weights,
    const double *vector, double *out) {
    discreet_eight given = DISCREET_LOAD(vector), total = given;
    for (ptrdiff_t k = 0; k < count; k++) {
        discreet_eight held = DISCREET_LOAD(buffers + k * stride);
        total = DISCREET_PLUS(total, DISCREET_TIMES(held, weights[k]));
        DISCREET_STORE(buffers + k * stride, DISCREET_PLUS(DISCREET_TIMES(held, decays[k]), given));
    }
    DISCREET_STORE(out, total);
}

/* fresh = released - sum(weights * buffers); then buffers = decays * buffers + fresh, prefix = prefix + fresh. */
DISCREET_INLINE void discreet_decode_block(
    double *buffers, ptrdiff_t stride, ptrdiff_t count, const double *decays, const double *weights,
    const double *released, double *prefix) {
    discreet_eight fresh = DISCREET_LOAD(released);
    for (ptrdiff_t k = 0; k < count; k++)
        fresh = DISCREET_MINUS(fresh, DISCREET_TIMES(DISCREET_LOAD(buffers + k * stride), weights[k]));
    for (ptrdiff_t k = 0; k < count; k++) {
        discreet_eight held = DISCREET_LOAD(buffers + k * stride);
        DISCREET_STORE(buffers + k * stride, DISCREET_PLUS(DISCREET_TIMES(held, decays[k]), fresh));
    }
    DISCREET_STORE(prefix, DISCREET_PLUS(DISCREET_LOAD(prefix), fresh));
}

#endif
