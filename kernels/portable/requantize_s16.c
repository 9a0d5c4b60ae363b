/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"
#include "pillion/requantize.h"

void pillion_requantize_s16(const pillion_requantize_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t scaled = pillion_requantize(x[i] - p->in_zp, p->multiplier, p->shift);
        y[i] = (int16_t)(pillion_clamp(scaled, INT16_MIN - p->out_zp, INT16_MAX - p->out_zp) + p->out_zp);
    }
}
