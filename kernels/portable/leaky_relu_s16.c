/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"
#include "pillion/requantize.h"

void pillion_leaky_relu_s16(const pillion_leaky_relu_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t scaled = x[i] >= 0 ? pillion_requantize(x[i], p->multiplier, p->shift)
                                         : p->negative_sign * pillion_requantize(x[i], p->negative_multiplier, p->negative_shift);
        y[i] = (int16_t)pillion_clamp(scaled, INT16_MIN, INT16_MAX);
    }
}
