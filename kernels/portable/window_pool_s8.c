/* SPDX-License-Identifier: Apache-2.0
 * Average pools over a window that moves, as pillion_window_mean_s8: means half away from zero. */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "sums_of_rows.h"

void pillion_window_pool_s8(const pillion_window_pool_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    const int32_t inner = p->inner, rows = p->entering, taps = p->window, half = taps / 2;
    const int8_t *const newest = x + (taps - rows) * inner;
    for (int32_t i = 0; i < inner; i += TOGETHER) {
        const int32_t count = inner - i < TOGETHER ? inner - i : TOGETHER;
        pillion_add_rows(newest + i, rows, inner, count, 1, sums + i);
        for (int32_t k = i; k < i + count; k++) {
            const int32_t mean = (sums[k] < 0 ? sums[k] - half : sums[k] + half) / taps;
            y[k] = (int8_t)pillion_clamp(mean, p->low, p->high);
        }
        pillion_add_rows(x + i, rows, inner, count, -1, sums + i);
    }
}
