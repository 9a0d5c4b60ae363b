/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pool16.h"

static inline int16x8_t largest(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step) {
    int16x8_t found = vldrhq_s16(x);
    for (; rows > 0; rows--, x += row_step - columns * step) {
        for (int32_t kx = columns; kx > 0; kx--, x += step) {
            found = vmaxq_s16(found, vldrhq_s16(x));
        }
    }
    return found;
}

void pillion_max_pool2d_s16_mve(const pillion_max_pool2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_pool_16(p, x, y, largest);
}

#endif
