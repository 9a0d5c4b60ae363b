/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/reduce.h"
#include "pillion/requantize.h"

void pillion_reduce_sum_once_s8(const pillion_reduce_sum_once_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    int32_t at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->results; i++) {
        const int32_t sum = pillion_sum(PILLION_REDUCED(p), p->in_zp, x);
        y[i] = pillion_saturate(pillion_multiply_once(sum, p->multiplier, p->right), p->out_zp, -128, 127);
        x += pillion_walk(p->kept_axes, p->kept_extent, p->kept_step, at);
    }
}
