/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/window16.h"

PILLION_INLINE int32_t largest(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step) {
    int32_t found = x[0];
    for (int32_t ky = 0; ky < rows; ky++) {
        for (int32_t kx = 0; kx < columns; kx++) {
            const int32_t tap = x[ky * row_step + kx * step];
            found = tap > found ? tap : found;
        }
    }
    return found;
}

void pillion_max_pool2d_s16(const pillion_max_pool2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_pool_16(p, x, y, largest);
}
