/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

/* a * b / 2^31, rounded half up. */
static int32_t multiply_high(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

static int32_t wrapping_sum(int32_t a, uint32_t b) {
    return (int32_t)((uint32_t)a + b);
}

/* 1 / (1 + a) in Q0.31 of a in [0, 1) in Q0.31: Newton's method, from 48/17 - 32/17 * half the denominator. */
static int32_t one_over_one_plus(uint32_t a) {
    const int32_t half_denominator = (int32_t)((a + UINT32_C(0x80000000)) >> 1);
    int32_t x = 1515870810 + multiply_high(half_denominator, -1010580540);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - multiply_high(x, half_denominator);
        x = wrapping_sum(x, (uint32_t)multiply_high(x, error) << 2);
    }
    return x >= 1 << 30 ? INT32_MAX : x * 2;
}

static int32_t largest_of(const int8_t *x, int32_t count) {
    int32_t largest = -128;
    for (int32_t i = 0; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

/* exp(x - largest) in Q0.31; values that are too far below the largest count as 0. */
static int32_t exponential(const pillion_softmax_s8_params *p, int32_t largest, int32_t x) {
    const int32_t distance = largest - x;
    return distance < p->exponentials_count ? p->exponentials[distance] : 0;
}

static void row(const pillion_softmax_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t largest = largest_of(x, p->count);
    uint32_t sum = 0; /* Q12 */
    for (int32_t i = 0; i < p->count; i++) {
        sum += ((uint32_t)exponential(p, largest, x[i]) + (1u << 11)) >> 12;
    }
    int32_t places = 35; /* from Q0.31 times Q0.31 over the sum to steps of 1/256 */
    for (; sum < UINT32_C(0x80000000); sum <<= 1) {
        places--;
    }
    const int32_t inverse = one_over_one_plus(sum - UINT32_C(0x80000000));
    const uint64_t half = UINT64_C(1) << (places - 1);
    for (int32_t i = 0; i < p->count; i++) {
        const uint64_t product = (uint64_t)multiply_high(inverse, exponential(p, largest, x[i]));
        y[i] = (int8_t)pillion_clamp((int32_t)((product + half) >> places) - 128, -128, 127);
    }
}

void pillion_softmax_s8(const pillion_softmax_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        row(p, x, y);
    }
}
