/* SPDX-License-Identifier: Apache-2.0
 * The functions of pillion/fixed16.h, of eight numbers at a time: VQRDMULH is the product of two fractions. */
#ifndef PILLION_MVE_FIXED16_H
#define PILLION_MVE_FIXED16_H

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#include <stdint.h>

/* x / 2^places, rounded half away from zero. */
#define PILLION_MVE_PLACES_LESS(x, places) vrshrq_n_s16(vqaddq_s16(x, vshrq_n_s16(x, 15)), places)

/* Products of two vectors of 16 bits, the even ones and the odd ones. */
typedef struct {
    int32x4_t even, odd;
} pillion_mve_products;

static inline pillion_mve_products pillion_mve_products_of(int16x8_t a, int16x8_t b) {
    const pillion_mve_products made = {vmullbq_int_s16(a, b), vmulltq_int_s16(a, b)};
    return made;
}

static inline int16x8_t pillion_mve_saturated16(pillion_mve_products x) {
    return vqmovntq_s32(vqmovnbq_s32(vdupq_n_s16(0), x.even), x.odd);
}

/* Products / 2^places, rounded half away from zero, in 16 bits. */
static inline int16x8_t pillion_mve_places_less(pillion_mve_products x, int32_t places) {
    x.even = vrshlq_n_s32(vaddq_s32(x.even, vshrq_n_s32(x.even, 31)), -places);
    x.odd = vrshlq_n_s32(vaddq_s32(x.odd, vshrq_n_s32(x.odd, 31)), -places);
    return pillion_mve_saturated16(x);
}

#define PILLION_MVE_POWER(bit, power) \
    made = vqrdmulhq_m_n_s16(made, made, power, vcmpltq_n_s16(vshlq_n_s16(quarters, 15 - bit), 0))

/* e to the power of x < 0: a polynomial for the remainder modulo 1/4, and a table for each bit of the multiple of 1/4. */
static inline __attribute__((always_inline)) int16x8_t pillion_mve_exp16_of_negative(int16x8_t x, int32_t integer_bits) {
    const int16x8_t quarter = vdupq_n_s16((int16_t)(1 << (13 - integer_bits)));
    const int16x8_t beyond = vsubq_s16(vandq_s16(x, vsubq_n_s16(quarter, 1)), quarter);
    const int16x8_t a = vaddq_n_s16(vshlq_r_s16(beyond, integer_bits), 1 << 12);
    const int16x8_t a2 = vqrdmulhq_s16(a, a);
    const int16x8_t a3 = vqrdmulhq_s16(a2, a), a4 = vqrdmulhq_s16(a2, a2);
    const int16x8_t tail = vaddq_s16(vqrdmulhq_n_s16(vaddq_s16(PILLION_MVE_PLACES_LESS(a4, 2), a3), 10923), a2);
    const int16x8_t series = vaddq_s16(a, PILLION_MVE_PLACES_LESS(tail, 1));
    const int16x8_t quarters = vshlq_r_s16(vsubq_s16(beyond, x), integer_bits - 13);
    int16x8_t made = vqaddq_n_s16(vqrdmulhq_n_s16(series, 28918), 28918);
    PILLION_MVE_POWER(0, 25520); /* of -1/4, -1/2, -1, ... -16 */
    PILLION_MVE_POWER(1, 19875);
    PILLION_MVE_POWER(2, 12055);
    PILLION_MVE_POWER(3, 4435);
    PILLION_MVE_POWER(4, 600);
    if (integer_bits > 3) {
        PILLION_MVE_POWER(5, 11);
    }
    if (integer_bits > 4) {
        PILLION_MVE_POWER(6, 0);
    }
    if (integer_bits > 5) {
        made = vdupq_m_n_s16(made, 0, vcmpltq_n_s16(x, (int16_t)-(1 << (20 - integer_bits))));
    }
    return made;
}

/* 2 / (1 + x) with two integer bits, of x from 0 to 1: Newton's method, from 48/17 - 32/17 * half of 1 + x. */
static inline int16x8_t pillion_mve_two_over_one_plus16(int16x8_t x) {
    const int16x8_t half = vaddq_n_s16(vshrq_n_s16(x, 1), 1 << 14);
    int16x8_t found = vaddq_n_s16(vqrdmulhq_n_s16(half, -15420), 23130);
    for (int32_t i = 0; i < 3; i++) {
        const int16x8_t error = vsubq_s16(vdupq_n_s16(1 << 13), vqrdmulhq_s16(half, found));
        found = vaddq_s16(found, vqshlq_n_s16(vqrdmulhq_s16(found, error), 2));
    }
    return found;
}

/* -|x| */
static inline int16x8_t pillion_mve_negative(int16x8_t x) {
    return vminq_s16(x, vnegq_s16(x));
}

/* The logistic function of x with three integer bits. */
static inline int16x8_t pillion_mve_logistic16(int16x8_t x) {
    const int16x8_t e = pillion_mve_exp16_of_negative(pillion_mve_negative(x), 3);
    const int16x8_t positive = vqshlq_n_s16(pillion_mve_two_over_one_plus16(e), 1);
    const int16x8_t made = vpselq_s16(positive, vsubq_s16(vdupq_n_s16(INT16_MAX), positive), vcmpgtq_n_s16(x, 0));
    return vdupq_m_n_s16(made, 1 << 14, vcmpeqq_n_s16(x, 0));
}

static inline __attribute__((always_inline)) int16x8_t pillion_mve_tanh16(int16x8_t x, int32_t integer_bits) {
    const int16x8_t e = pillion_mve_exp16_of_negative(pillion_mve_negative(x), integer_bits + 1);
    const int16x8_t above = vsubq_n_s16(pillion_mve_two_over_one_plus16(e), 1 << 13);
    const int16x8_t positive = vqshlq_n_s16(above, 2);
    const int16x8_t made = vpselq_s16(positive, vnegq_s16(positive), vcmpgtq_n_s16(x, 0));
    return vdupq_m_n_s16(made, 0, vcmpeqq_n_s16(x, 0));
}

#endif
#endif
