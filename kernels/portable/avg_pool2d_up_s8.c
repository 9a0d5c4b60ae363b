/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/pool.h"

enum { LEAST = -128 };

/* Up to PILLION_BLOCK channels of one output pixel; x is at the first tap inside the image. Counted from the least number, sums are
 * not negative, and half a pixel more rounds to nearest, halves up. */
static void pixel(const pillion_pool_s8_params *p, const int8_t *x, int32_t rows, int32_t columns, int32_t count, int8_t *y) {
    const int32_t low = p->low, high = p->high, channels = p->channels, row_step = p->in_w * channels;
    const int32_t taps = rows * columns, start = taps / 2 - LEAST * taps;
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
        y[i] = (int8_t)pillion_clamp((sums[i] + start) / taps + LEAST, low, high);
    }
}

void pillion_avg_pool2d_up_s8(const pillion_avg_pool2d_up_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_pool(p, x, y, pixel);
}
