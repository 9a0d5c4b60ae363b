/* SPDX-License-Identifier: Apache-2.0
 * Softmax that computes its exponentials, for few elements: that takes less memory than a table. */
#include "pillion/kernels.h"
#include "pillion/softmax.h"

/* exp(a) in Q0.31 of a in Q5.26, zero or less: a Taylor polynomial around -1/8 for the remainder in [-1/4, 0), and a factor
 * for each power of 2 in the multiple of 1/4. */
static int32_t exp_of(int32_t a) {
    static const int32_t exp_minus_powers_of_2[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t exp_minus_eighth = 1895147668, one_third = 715827883, quarter = 1 << 24;
    if (a == 0) {
        return INT32_MAX;
    }
    const int32_t remainder = (a & (quarter - 1)) - quarter;
    const int32_t x = remainder * 32 + (1 << 28);
    const int32_t x2 = pillion_fraction_of(x, x);
    const int32_t x3 = pillion_fraction_of(x2, x);
    const int32_t x4_over_4 = (pillion_fraction_of(x2, x2) + 2) >> 2;
    const int32_t tail = (pillion_fraction_of(x4_over_4 + x3, one_third) + x2 + 1) >> 1;
    int32_t power = exp_minus_eighth + pillion_fraction_of(exp_minus_eighth, x + tail);
    const int32_t *factor = exp_minus_powers_of_2;
    for (int32_t quarters = (remainder - a) / quarter; quarters > 0; quarters >>= 1, factor++) {
        if (quarters & 1) {
            power = pillion_fraction_of(power, *factor);
        }
    }
    return power;
}

/* Into `exponentials`; returns their sum. */
static uint32_t exponentials_of(const pillion_softmax_few_s8_params *p, const int8_t *x, int32_t *exponentials) {
    const int32_t largest = pillion_largest_of(x, p->count);
    uint32_t sum = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t distance = largest - x[i];
        exponentials[i] = 0;
        if (distance <= p->farthest) {
            exponentials[i] = exp_of(pillion_fraction_of(-(distance << p->shift), p->multiplier));
        }
        sum += pillion_in_sum(exponentials[i]);
    }
    return sum;
}

void pillion_softmax_few_s8(const pillion_softmax_few_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const exponentials = scratch;
    for (int32_t n = 0; n < p->rows; n++, x += p->count, y += p->count) {
        const uint32_t sum = exponentials_of(p, x, exponentials);
        const pillion_divisor by = pillion_divide_by(sum, p->places, p->factor);
        for (int32_t i = 0; i < p->count; i++) {
            y[i] = pillion_probability(by, exponentials[i]);
        }
    }
}
