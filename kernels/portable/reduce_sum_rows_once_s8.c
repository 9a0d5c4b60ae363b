/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"
#include "sums_of_rows.h"

void pillion_reduce_sum_rows_once_s8(const pillion_reduce_sum_rows_once_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    pillion_take_in_rows(x, p->reduced, p->inner, p->is_first, sums);
    for (int32_t i = 0; p->is_last && i < p->inner; i++) {
        y[i] = pillion_saturate(pillion_multiply_once(sums[i] - p->offset, p->multiplier, p->right), p->out_zp, -128, 127);
    }
}
