/* SPDX-License-Identifier: Apache-2.0
 * Functions of 16-bit fractions, each step rounded to 16 bits: the gates of recurrent layers. The definition is
 * pillion/ops/fixed16.py. A number with I integer bits is raw / 2^(15 - I). */
#ifndef PILLION_FIXED16_H
#define PILLION_FIXED16_H

#include "pillion/requantize.h"

#if defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
static inline int32_t pillion_saturate16(int32_t x) {
    __asm("ssat %0, #16, %0" : "+r"(x));
    return x;
}

/* a * b / 2^15, rounded half up. */
static inline int32_t pillion_fraction16_of(int32_t a, int32_t b) {
    int32_t product;
    __asm("smlabb %0, %1, %2, %3\n\tssat %0, #16, %0, asr #15" : "=r"(product) : "r"(a), "r"(b), "r"(1 << 14));
    return product;
}
#else
static inline int32_t pillion_saturate16(int32_t x) {
    return pillion_clamp(x, INT16_MIN, INT16_MAX);
}

/* a * b / 2^15, rounded half up. */
static inline int32_t pillion_fraction16_of(int32_t a, int32_t b) {
    const int32_t product = (a * b + (1 << 14)) >> 15;
    return product > INT16_MAX ? INT16_MAX : product;
}
#endif

/* x / 2^places, rounded half away from zero; there is a place at least, and x is below 2^30. */
static inline int32_t pillion_places_less(int32_t x, int32_t places) {
    return (x + (1 << (places - 1)) - (x < 0)) >> places;
}

/* e to the power of x <= 0: a polynomial for the remainder modulo 1/4, and a table for each bit of the multiple of 1/4. */
static inline int32_t pillion_exp16_of_negative(int32_t x, int32_t integer_bits) {
    static const int16_t powers[7] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* of -1/4, -1/2, -1, ... -16 */
    const int32_t quarter = 1 << (13 - integer_bits);
    if (x == 0) {
        return INT16_MAX;
    }
    if (integer_bits > 5 && x < -(1 << (20 - integer_bits))) {
        return 0;
    }
    const int32_t beyond = (x & (quarter - 1)) - quarter;
    const int32_t a = pillion_saturate16(beyond * (1 << integer_bits)) + (1 << 12);
    const int32_t a2 = pillion_fraction16_of(a, a);
    const int32_t a3 = pillion_fraction16_of(a2, a), a4 = pillion_fraction16_of(a2, a2);
    const int32_t tail = pillion_fraction16_of(pillion_places_less(a4, 2) + a3, 10923) + a2;
    int32_t made = pillion_saturate16(28918 + pillion_fraction16_of(28918, a + pillion_places_less(tail, 1)));
    const int32_t rest = beyond - x;
    for (int32_t i = 0; i < 7 && i < integer_bits + 2; i++) {
        if ((rest & (quarter << i)) != 0) {
            made = pillion_fraction16_of(made, powers[i]);
        }
    }
    return made;
}

/* 2 / (1 + x) with two integer bits, of x from 0 to 1: Newton's method, from 48/17 - 32/17 * half of 1 + x. */
static inline int32_t pillion_two_over_one_plus16(int32_t x) {
    const int32_t half = (x + INT16_MAX + 1) / 2;
    int32_t found = 23130 + pillion_fraction16_of(half, -15420);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t error = (1 << 13) - pillion_fraction16_of(half, found);
        found += pillion_saturate16(pillion_fraction16_of(found, error) * 4);
    }
    return found;
}

/* The logistic function of x with three integer bits. */
static inline int32_t pillion_logistic16(int32_t x) {
    if (x == 0) {
        return 1 << 14;
    }
    const int32_t found = pillion_two_over_one_plus16(pillion_exp16_of_negative(x < 0 ? x : -x, 3));
    const int32_t positive = pillion_saturate16(found * 2);
    return x > 0 ? positive : INT16_MAX - positive;
}

static inline int32_t pillion_tanh16(int32_t x, int32_t integer_bits) {
    if (x == 0) {
        return 0;
    }
    const int32_t found = pillion_two_over_one_plus16(pillion_exp16_of_negative(x < 0 ? x : -x, integer_bits + 1));
    const int32_t positive = pillion_saturate16((found - (1 << 13)) * 4);
    return x > 0 ? positive : -positive;
}

#endif
