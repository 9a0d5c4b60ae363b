/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

enum {
    SQRT_HALF = 1518500250, /* 2^-1/2 in Q0.31 */
    STEPS = 5               /* of Newton's method */
};

static int32_t high(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* The multiplier of 1 / sqrt(sum), sum > 1: x = x * (3 - a * x^2) / 2 from x = 1 in Q3.28, where a is the sum times a power of 4. */
static int32_t inverse_square_root(int32_t sum, int32_t *shift) {
    *shift = -11;
    if (sum >= 1 << 29) {
        sum >>= 2;
        *shift -= 1;
    }
    for (; sum < 1 << 27; sum *= 4) {
        *shift += 1;
    }
    const int32_t half_a = ((sum >> 1) + 1) >> 1;
    int32_t x = 1 << 28;
    for (int32_t i = 0; i < STEPS; i++) {
        const int32_t cube = high(high(x, x), x) * (1 << 6);
        x = (high(3 << 27, x) - high(half_a, cube)) * (1 << 3);
    }
    return high(x, SQRT_HALF);
}

static void row(const pillion_l2_normalize_s8_params *p, const int8_t *x, int8_t *y) {
    int32_t sum = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t level = x[i] - p->in_zp;
        sum += level * level;
    }
    int32_t shift = 0;
    const int32_t multiplier = sum > 1 ? inverse_square_root(sum, &shift) : INT32_MAX;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t level = (x[i] - p->in_zp) * (1 << p->headroom);
        y[i] = pillion_saturate(pillion_requantize(level, multiplier, shift + 7 - p->headroom), 0, -128, 127);
    }
}

void pillion_l2_normalize_s8(const pillion_l2_normalize_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        row(p, x, y);
    }
}
