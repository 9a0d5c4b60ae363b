/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/softmax16.h"

/* A distance in steps of the table, rounded as pillion_requantize rounds its negative. */
PILLION_INLINE uint32_t steps_below(const pillion_softmax_s16_params *p, uint32_t distance) {
    const int32_t left = p->shift > 0 ? p->shift : 0, right = left - p->shift;
    const uint32_t half = right > 0 ? UINT32_C(1) << (right - 1) : 0, twice = 2 * (uint32_t)p->multiplier;
    return ((uint32_t)(((uint64_t)(distance << left) * twice + 0x7ffffffe) >> 32) + half) >> right;
}

static void row(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y) {
    int32_t largest = x[0], sum = 0;
    for (int32_t i = 1; i < p->count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int32_t i = 0; i < p->count; i++) {
        const uint32_t below = steps_below(p, (uint32_t)(largest - x[i]));
        y[i] = (int16_t)pillion_look_up_16(p->exponentials, 32767 - (int32_t)(below < 65535 ? below : 65535));
        sum += y[i];
    }
    const pillion_softmax_16_scale scale = pillion_softmax_16_scale_of(p, sum);
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t share = (y[i] * scale.inverse + (1 << (scale.right - 1))) >> scale.right;
        y[i] = (int16_t)(share > 32767 ? 32767 : share);
    }
}

void pillion_softmax_s16(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->rows; n++) {
        row(p, x + n * p->count, y + n * p->count);
    }
}
