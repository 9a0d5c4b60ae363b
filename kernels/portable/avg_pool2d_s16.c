/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/window16.h"

/* Rounded half away from zero. */
PILLION_INLINE int32_t mean(const int16_t *x, int32_t rows, int32_t columns, int32_t row_step, int32_t step) {
    int32_t sum = 0;
    for (int32_t ky = 0; ky < rows; ky++) {
        for (int32_t kx = 0; kx < columns; kx++) {
            sum += x[ky * row_step + kx * step];
        }
    }
    const int32_t taps = rows * columns, half = taps / 2;
    return (sum < 0 ? sum - half : sum + half) / taps;
}

void pillion_avg_pool2d_s16(const pillion_avg_pool2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_pool_16(p, x, y, mean);
}
