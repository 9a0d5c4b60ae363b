/* SPDX-License-Identifier: Apache-2.0
 * Means over a moving window: entering rows are added to the sums, and the rows that leave next are subtracted. */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "sums_of_rows.h"

void pillion_window_mean_s8(const pillion_window_mean_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    const int32_t inner = p->inner, rows = p->entering;
    const int8_t *const newest = x + (p->window - rows) * inner;
    for (int32_t i = 0; i < inner; i += TOGETHER) {
        const int32_t count = inner - i < TOGETHER ? inner - i : TOGETHER;
        pillion_add_rows(newest + i, rows, inner, count, 1, sums + i);
        for (int32_t k = i; k < i + count; k++) {
            const int32_t mean = pillion_requantize(sums[k] - p->offset, p->multiplier, p->shift);
            y[k] = pillion_saturate(mean, p->out_zp, -128, 127);
        }
        pillion_add_rows(x + i, rows, inner, count, -1, sums + i);
    }
}
