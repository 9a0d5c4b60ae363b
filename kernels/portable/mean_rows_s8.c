/* SPDX-License-Identifier: Apache-2.0
 * Means of rows that arrive a few at a time: integer sums do not depend on the order. */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "sums_of_rows.h"

void pillion_mean_rows_s8(const pillion_mean_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    pillion_take_in_rows(x, p->reduced, p->inner, p->is_first, sums);
    for (int32_t i = 0; p->is_last && i < p->inner; i++) {
        const int32_t mean = pillion_requantize(sums[i] - p->offset, p->multiplier, p->shift);
        y[i] = pillion_saturate(mean, p->out_zp, -128, 127);
    }
}
