/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/softmax.h"

enum {
    LOG_2 = 1488522236,             /* log 2 in Q0.31 */
    SQRT_HALF = 1518500250,         /* 2^-1/2 */
    ROOT_OF_SQRT_HALF = 1805811301, /* 2^-1/4 */
    QUARTER = 1 << 23,              /* 1/4 in Q6.25 */
    ALPHA_N = 117049297,            /* 11/240 * 2^1/4 */
    ALPHA_D = 127690142,            /* 1/20 * 2^1/4 */
    ALPHA_I = 1057819769,           /* 2 / 2^1/4 - 2^1/4 */
    ALPHA_F = 638450708             /* 1/4 * 2^1/4 */
};

/* x / 2^places, rounded half away from zero. */
static int32_t shift_right(int32_t x, int32_t places) {
    const int64_t half = INT64_C(1) << (places - 1);
    return (int32_t)((x + half - (x < 0)) >> places);
}

static int32_t leading_zeros(uint32_t x) {
    int32_t zeros = 0;
    for (; x < UINT32_C(0x80000000); x <<= 1) {
        zeros++;
    }
    return zeros;
}

static int32_t twice(int32_t x) {
    return x >= 1 << 30 ? INT32_MAX : x * 2;
}

/* The logarithm in Q6.25 of a number near 1. */
static int32_t log_of_rest(int32_t r) {
    const int64_t total = (int64_t)r + ROOT_OF_SQRT_HALF;
    const int32_t p = (int32_t)((total + 1) / 2);
    const int32_t q = 2 * (r - ROOT_OF_SQRT_HALF);
    const int32_t square = pillion_fraction_of(q, q);
    const int32_t numerator = pillion_fraction_of(q, r) + pillion_fraction_of(pillion_fraction_of(q, square), ALPHA_N);
    const int32_t inner = ALPHA_I + q + pillion_fraction_of(ALPHA_D, square);
    const int32_t rest = pillion_fraction_of(p, inner) + pillion_fraction_of(ALPHA_F, q);
    return pillion_fraction_of(shift_right(numerator, 6), pillion_one_over_one_plus((uint32_t)rest));
}

/* The logarithm in Q5.26 of a sum in Q12.19, from 1 on: powers of two are taken out in two ways, half a power apart. */
static int32_t log_of_sum(uint32_t sum) {
    const int32_t leading = leading_zeros(sum);
    const int32_t r_a = twice(pillion_fraction_of((int32_t)(sum << (leading - 1)), SQRT_HALF));
    const int32_t power_a = (12 - leading) * (1 << 25) + QUARTER;
    const int32_t free = leading_zeros((uint32_t)pillion_fraction_of((int32_t)sum, SQRT_HALF)) - 1;
    const uint64_t moved = (uint64_t)sum << free;
    const int32_t r_b = moved > INT32_MAX ? INT32_MAX : (int32_t)moved;
    const int32_t power_b = (12 - free) * (1 << 25) - QUARTER;
    const int32_t power = pillion_fraction_of(power_a > power_b ? power_a : power_b, LOG_2);
    return twice(power + log_of_rest(r_a < r_b ? r_a : r_b));
}

static void row(const pillion_log_softmax_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t largest = pillion_largest_of(x, p->count);
    uint32_t sum = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t distance = largest - x[i];
        sum += distance < p->exponentials_count ? pillion_in_sum(p->exponentials[distance]) : 0u;
    }
    const int32_t log = log_of_sum(sum);
    const int32_t floor = pillion_requantize(log + INT32_MIN, p->back_multiplier, p->back_shift);
    const int32_t beyond = floor > p->farthest - 1 ? floor : p->farthest - 1;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t difference = x[i] - largest;
        const int32_t scaled = difference > beyond ? pillion_requantize(difference, p->multiplier, p->shift) : 0;
        const int32_t level = shift_right(scaled - log, 22) + 127;
        y[i] = difference > beyond ? (int8_t)pillion_clamp(level, -128, 127) : -128;
    }
}

void pillion_log_softmax_s8(const pillion_log_softmax_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        row(p, x, y);
    }
}
