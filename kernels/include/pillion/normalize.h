/* SPDX-License-Identifier: Apache-2.0
 * Code that the kernels of norms share: it computes, from the sums of a row's elements and of their squares, the two numbers that
 * normalize each element: element * factor + start, modulo 2^32. */
#ifndef PILLION_NORMALIZE_H
#define PILLION_NORMALIZE_H

#include "pillion/kernels.h"
#include "pillion/requantize.h"

enum {
    PILLION_ROOT_FIRST = 1145023540, /* in Q29: a line that is near 1 / sqrt(u) from a quarter to 1 */
    PILLION_ROOT_SLOPE = 654299166
};

/* The most elements with squares that sum to 32 bits. */
enum { PILLION_MOST_SQUARES = 1 << 16 };

typedef struct {
    uint32_t factor, start;
} pillion_standard;

/* 1 / sqrt(fixed) in Q29, fixed = u * 2^31 * 4^halves with u from a quarter to 1: Newton's method. */
static inline int32_t pillion_reciprocal_root(uint64_t fixed, int32_t *halves) {
    int32_t moved = 0;
    for (; fixed >= UINT64_C(1) << 37; fixed >>= 8) {
        moved += 4;
    }
    for (; fixed >= UINT64_C(1) << 31; fixed >>= 2) {
        moved++;
    }
    for (; fixed < 1u << 29; fixed <<= 2) {
        moved--;
    }
    const uint32_t u = (uint32_t)fixed;
    uint32_t root = PILLION_ROOT_FIRST - (uint32_t)(((uint64_t)u * PILLION_ROOT_SLOPE) >> 31);
    for (int32_t step = 0; step < 3; step++) {
        const uint32_t square = (uint32_t)(((uint64_t)root * root) >> 30);
        const uint32_t rest = 3 * (UINT32_C(1) << 28) - (uint32_t)(((uint64_t)square * u) >> 31);
        root = (uint32_t)(((uint64_t)root * rest) >> 29);
    }
    *halves = moved;
    return (int32_t)root;
}

/* The sums of elements and of squares include the zero point. */
static inline pillion_standard pillion_standard_of(const pillion_normalize_s8_params *p, int32_t sum, int64_t squares) {
    const int64_t count = p->elements;
    int64_t variance;
    int32_t mean;
    if (p->centred) {
        variance = count * squares - (int64_t)sum * sum;
        mean = pillion_requantize(sum, p->mean_multiplier, p->mean_shift);
    } else {
        variance = count * (squares - 2 * (int64_t)p->in_zp * sum + count * p->in_zp * p->in_zp);
        mean = p->in_zp * (1 << p->mean_bits);
    }
    pillion_standard found = {0, 0};
    if (variance == 0) {
        return found;
    }
    const uint64_t added = (uint64_t)(uint32_t)p->added_high << 32 | (uint32_t)p->added_low;
    const uint64_t fixed = p->variance_bits < 0 ? (uint64_t)variance >> -p->variance_bits
                                                : (uint64_t)variance << p->variance_bits;
    int32_t halves;
    const int32_t root = pillion_reciprocal_root(fixed + added ? fixed + added : 1, &halves);
    const int32_t shift = p->factor_bits - halves;
    const int64_t factor = shift >= 0 ? (int64_t)root << shift : (root + (INT64_C(1) << (-shift - 1))) >> -shift;
    found.factor = (uint32_t)factor;
    found.start = 0u - (uint32_t)((mean * factor + (1 << (p->mean_bits - 1))) >> p->mean_bits);
    return found;
}

/* An element to a level of the result, by the factor and the offset of its channel. */
PILLION_INLINE int32_t pillion_standardized(const pillion_normalize_s8_params *p, pillion_standard by, int32_t x,
                                            int32_t factor, int32_t offset) {
    const int32_t standard = (int32_t)((uint32_t)x * by.factor + by.start);
    const int32_t high = (int32_t)(((int64_t)standard * factor + (INT64_C(1) << 31)) >> 32);
    return pillion_clamp((high + offset) >> p->places, p->low, p->high);
}

#endif
