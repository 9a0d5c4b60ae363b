/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/window16.h"

void pillion_batch_matmul_s16(const pillion_batch_matmul_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                              void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++, a += p->rows * p->depth, b += p->depth * p->columns) {
        for (int32_t at = 0; at < p->rows * p->columns; at++) {
            const int16_t *const row = a + at / p->columns * p->a_row_step;
            const int16_t *const column = b + at % p->columns * p->b_column_step;
            int64_t sum = 0;
            for (int32_t k = 0; k < p->depth; k++) {
                sum += (int64_t)row[k * p->a_depth_step] * column[k * p->b_depth_step];
            }
            *y++ = pillion_round_to_16(sum, p->multiplier, p->right, p->low, p->high);
        }
    }
}
