/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

enum { LANES = 4 };

/* sums[j] = the product of a row of a and column j of b. */
PILLION_INLINE void products(const pillion_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b, int32_t *sums,
                             int32_t lanes) {
    int32_t sum[LANES] = {0};
    for (int32_t k = 0; k < p->depth; k++, a += p->a_depth_step, b += p->b_depth_step) {
        const int32_t value = *a - p->a_zp;
        for (int32_t j = 0; j < lanes; j++) {
            sum[j] += value * (b[j * p->b_column_step] - p->b_zp);
        }
    }
    for (int32_t j = 0; j < lanes; j++) {
        sums[j] = sum[j];
    }
}

static void row(const pillion_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y) {
    for (int32_t n = 0; n < p->columns;) {
        const int32_t lanes = p->columns - n < LANES ? 1 : LANES;
        int32_t sums[LANES];
        if (lanes == LANES) {
            products(p, a, b + n * p->b_column_step, sums, LANES);
        } else {
            products(p, a, b + n * p->b_column_step, sums, 1);
        }
        for (int32_t j = 0; j < lanes; j++, n++) {
            const int32_t scaled = pillion_requantize(sums[j], p->multiplier, p->shift);
            y[n] = pillion_saturate(scaled, p->out_zp, p->low, p->high);
        }
    }
}

void pillion_batch_matmul_s8(const pillion_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                             void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t m = 0; m < p->rows; m++, y += p->columns) {
            row(p, a + m * p->a_row_step, b, y);
        }
        a += p->rows * p->depth;
        b += p->depth * p->columns;
    }
}
