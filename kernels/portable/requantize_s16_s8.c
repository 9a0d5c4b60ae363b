/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"
#include "pillion/requantize.h"

void pillion_requantize_s16_s8(const pillion_requantize_s16_s8_params *p, const int16_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t scaled = pillion_requantize(x[i] - p->in_zp, p->multiplier, p->shift);
        y[i] = (int8_t)(pillion_clamp(scaled, INT8_MIN - p->out_zp, INT8_MAX - p->out_zp) + p->out_zp);
    }
}
