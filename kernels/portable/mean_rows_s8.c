/* SPDX-License-Identifier: Apache-2.0
 * Means of what comes a few rows at a time: integer sums are the same in any order. */
#include <string.h>

#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "row_sums.h"

void pillion_mean_rows_s8(const pillion_mean_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    const int32_t inner = p->inner;
    if (p->is_first) {
        memset(sums, 0, (size_t)inner * sizeof *sums);
    }
    for (int32_t i = 0; i < inner; i += TOGETHER) {
        pillion_add_rows(x + i, p->reduced, inner, inner - i < TOGETHER ? inner - i : TOGETHER, 1, sums + i);
    }
    for (int32_t i = 0; p->is_last && i < inner; i++) {
        const int32_t mean = pillion_requantize(sums[i] - p->offset, p->multiplier, p->shift);
        y[i] = pillion_saturate(mean, p->out_zp, -128, 127);
    }
}
