/* SPDX-License-Identifier: Apache-2.0
 * Means over any axes, of the type MEAN_TYPE: the including file defines it, and MEAN_SATURATE, which adds the zero point. */
#include "pillion/blocks.h"
#include "pillion/kernels.h"
#include "pillion/walk.h"

/* Up to PILLION_BLOCK neighbouring means. */
static void means(const pillion_mean_s8_params *p, const MEAN_TYPE *x, int32_t count, MEAN_TYPE *y) {
    const int32_t steps = p->steps, step = p->step;
    int32_t sums[PILLION_BLOCK] = {0}, at[PILLION_MAX_AXES] = {0};
    for (int32_t n = 0; n < p->reduced; n++) {
        for (int32_t m = 0; m < steps; m++) {
            for (int32_t i = 0; i < count; i++) {
                sums[i] += x[m * step + i];
            }
        }
        x += pillion_walk(p->reduced_axes, p->reduced_extent, p->reduced_step, at);
    }
    const int32_t offset = p->offset, multiplier = p->multiplier, shift = p->shift, out_zp = p->out_zp;
    for (int32_t i = 0; i < count; i++) {
        y[i] = MEAN_SATURATE(pillion_requantize(sums[i] - offset, multiplier, shift), out_zp);
    }
}

PILLION_INLINE void means_of_rows(const pillion_mean_s8_params *p, const MEAN_TYPE *x, MEAN_TYPE *y) {
    int32_t at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++, y += p->count) {
        for (int32_t i = 0; i < p->count; i += PILLION_BLOCK) {
            means(p, x + i, pillion_block_count(i, p->count), y + i);
        }
        x += pillion_walk(p->axes, p->extent, p->row_step, at);
    }
}
