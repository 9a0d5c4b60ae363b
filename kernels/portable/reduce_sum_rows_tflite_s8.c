/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/rounding.h"
#include "sums_of_rows.h"

void pillion_reduce_sum_rows_tflite_s8(const pillion_reduce_sum_rows_tflite_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    pillion_take_in_rows(x, p->reduced, p->inner, p->is_first, sums);
    for (int32_t i = 0; p->is_last && i < p->inner; i++) {
        const int32_t scaled = pillion_nearest_to_double((double)(sums[i] - p->offset) * *p->ratio);
        y[i] = pillion_saturate(scaled, p->out_zp, -128, 127);
    }
}
