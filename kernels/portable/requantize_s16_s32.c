/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"
#include "pillion/requantize.h"

void pillion_requantize_s16_s32(const pillion_requantize_s16_s32_params *p, const int16_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = pillion_requantize(x[i] - p->in_zp, p->multiplier, p->shift);
    }
}
