/* SPDX-License-Identifier: Apache-2.0
 * Means of windows, for kernels that say before how a sum becomes the `mean_of` so many numbers. */
#include "pillion/pool.h"

/* Up to PILLION_BLOCK channels of one output pixel; x is at the first tap inside the image. */
static void pixel(const pillion_pool_s8_params *p, const int8_t *x, int32_t rows, int32_t columns, int32_t count, int8_t *y) {
    const int32_t low = p->low, high = p->high, channels = p->channels, row_step = p->in_w * channels;
    const int32_t taps = rows * columns;
    int32_t sums[PILLION_BLOCK] = {0};
    for (int32_t ky = 0; ky < rows; ky++) {
        for (int32_t kx = 0; kx < columns; kx++) {
            const int8_t *const tap = x + ky * row_step + kx * channels;
            for (int32_t i = 0; i < count; i++) {
                sums[i] += tap[i];
            }
        }
    }
    for (int32_t i = 0; i < count; i++) {
        y[i] = (int8_t)pillion_clamp(mean_of(sums[i], taps), low, high);
    }
}
