/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/reduce.h"
#include "pillion/requantize.h"

void pillion_reduce_sum_once_s8(const pillion_reduce_sum_once_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    int32_t at[PILLION_MAX_AXES] = {0};
    const int64_t half = (int64_t)1 << (p->right - 1);
    for (int32_t i = 0; i < p->results; i++) {
        const int64_t product = (int64_t)pillion_sum(PILLION_REDUCED(p), p->in_zp, x) * p->multiplier;
        int64_t scaled = (product + half) >> p->right;
        scaled = scaled > 65535 ? 65535 : scaled < -65535 ? -65535 : scaled; /* far beyond int8, for the sum with out_zp */
        y[i] = pillion_saturate((int32_t)scaled, p->out_zp, -128, 127);
        x += pillion_walk(p->kept_axes, p->kept_extent, p->kept_step, at);
    }
}
