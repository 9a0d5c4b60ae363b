/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

void pillion_clamp_s16(const pillion_clamp_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t low = p->low, high = p->high;
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = (int16_t)pillion_clamp(x[i], low, high);
    }
}
