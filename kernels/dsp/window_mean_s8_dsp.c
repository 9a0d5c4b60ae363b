/* SPDX-License-Identifier: Apache-2.0
 * Means over a window that moves, four neighbours at a time: what enters is added to the sums of what stays, and what leaves next is
 * subtracted. */
#include "smmlar.h"
#include "sums.h"

#if PILLION_HAS_DSP

void pillion_window_mean_s8_dsp(const pillion_window_mean_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *sums = scratch;
    const int32_t inner = p->inner, rows = p->entering, round = p->round, multiplier = p->multiplier, right = p->right;
    const int8_t *newest = x + (p->window - rows) * inner;
    for (int32_t left = inner; left > 0; left -= 4, sums += 4, x += 4, newest += 4, y += 4) {
        uint32_t even = 0, odd = 0, old_even = 0, old_odd = 0;
        add_rows(newest, rows, inner, &even, &odd);
        add_rows(x, rows, inner, &old_even, &old_odd);
        const int32_t a = sums[0] + (int16_t)even, b = sums[1] + (int16_t)odd;
        const int32_t c = sums[2] + ((int32_t)even >> 16), d = sums[3] + ((int32_t)odd >> 16);
        sums[0] = a - (int16_t)old_even, sums[1] = b - (int16_t)old_odd;
        sums[2] = c - ((int32_t)old_even >> 16), sums[3] = d - ((int32_t)old_odd >> 16);
        y[0] = (int8_t)pillion_dsp_requantize(2 * a, round, multiplier, right);
        y[1] = (int8_t)pillion_dsp_requantize(2 * b, round, multiplier, right);
        y[2] = (int8_t)pillion_dsp_requantize(2 * c, round, multiplier, right);
        y[3] = (int8_t)pillion_dsp_requantize(2 * d, round, multiplier, right);
    }
}
#endif
