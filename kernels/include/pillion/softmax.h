/* SPDX-License-Identifier: Apache-2.0
 * Code that the kernels of softmax share: the arithmetic of fractions, and the division by the sum of exponentials. */
#ifndef PILLION_SOFTMAX_H
#define PILLION_SOFTMAX_H

#include "pillion/norms.h"
#include "pillion/requantize.h"

/* a * b / 2^31, rounded half up. */
static inline int32_t pillion_fraction_of(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

static inline int32_t pillion_largest_of(const int8_t *x, int32_t count) {
    int32_t largest = -128;
    for (int32_t i = 0; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

/* exp(x - largest) in Q0.31; values that are too far below the largest count as 0. */
static inline int32_t pillion_exponential(const pillion_softmax_s8_params *p, int32_t largest, int32_t x) {
    const int32_t distance = largest - x;
    return distance < p->exponentials_count ? p->exponentials[distance] : 0;
}

/* An exponential in Q0.31 as it is added up, in Q12. */
static inline uint32_t pillion_in_sum(int32_t exponential) {
    return ((uint32_t)exponential + (1u << 11)) >> 12;
}

/* 1 / (1 + a) in Q0.31 of a in [0, 1) in Q0.31: Newton's method, from 48/17 - 32/17 * half the denominator. */
static inline int32_t pillion_one_over_one_plus(uint32_t a) {
    const int32_t half_denominator = (int32_t)((a + UINT32_C(0x80000000)) >> 1);
    int32_t x = 1515870810 + pillion_fraction_of(half_denominator, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - pillion_fraction_of(x, half_denominator);
        x = (int32_t)((uint32_t)x + ((uint32_t)pillion_fraction_of(x, error) << 2));
    }
    return x >= 1 << 30 ? INT32_MAX : x * 2;
}

/* Division by a sum of exponentials. */
typedef struct {
    uint32_t inverse; /* in Q0.32 */
    int32_t places;   /* from an exponential over the sum in Q0.31 to steps of the result */
} pillion_divisor;

/* `places` are those of a sum of 2^31: 35 for steps of 1/256, one less for each power of two that steps are finer. Steps between two
 * powers of two have a factor in Q0.31, between 1/2 and 1; for others it is 0, and nothing is multiplied. */
static inline pillion_divisor pillion_divide_by(uint32_t sum, int32_t places, int32_t factor) {
    pillion_divisor d = {0, places};
    for (; sum < UINT32_C(0x80000000); sum <<= 1) {
        d.places--;
    }
    const int32_t inverse = pillion_one_over_one_plus(sum - UINT32_C(0x80000000));
    d.inverse = 2 * (uint32_t)(factor ? pillion_fraction_of(inverse, factor) : inverse);
    if (d.places > 31) { /* all shares are less than half a step */
        d.inverse = 0, d.places = 31;
    }
    return d;
}

/* An exponential over the sum, in steps of the result. */
static inline int32_t pillion_share(pillion_divisor by, int32_t exponential) {
    const uint32_t half = UINT32_C(1) << (by.places - 1);
    const uint32_t product = (uint32_t)(((uint64_t)by.inverse * (uint32_t)exponential + UINT32_C(0x80000000)) >> 32);
    return (int32_t)((product + half) >> by.places);
}

static inline int8_t pillion_probability(pillion_divisor by, int32_t exponential) {
    return (int8_t)pillion_clamp(pillion_share(by, exponential) - 128, -128, 127);
}

#endif
