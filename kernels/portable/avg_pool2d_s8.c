/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/blocks.h"
#include "pillion/kernels.h"
#include "pillion/window.h"

/* Up to PILLION_BLOCK channels of one output pixel; x is at the first tap inside the image. */
static void pixel(const pillion_avg_pool2d_s8_params *p, const int8_t *x, int32_t rows, int32_t columns, int32_t count,
                  int8_t *y) {
    const int32_t low = p->low, high = p->high, channels = p->channels, row_step = p->in_w * channels;
    const int32_t taps = rows * columns, half = taps / 2;
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
        const int32_t mean = (sums[i] < 0 ? sums[i] - half : sums[i] + half) / taps; /* half away from zero */
        y[i] = (int8_t)pillion_clamp(mean, low, high);
    }
}

static void row(const pillion_avg_pool2d_s8_params *p, const int8_t *x, int32_t top, int8_t *y) {
    const int32_t channels = p->channels;
    const pillion_range rows = pillion_taps_inside(top, 1, p->kernel_h, p->in_h);
    for (int32_t ox = 0; ox < p->out_w; ox++, y += channels) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const pillion_range columns = pillion_taps_inside(left, 1, p->kernel_w, p->in_w);
        const int32_t at = ((top + rows.first) * p->in_w + left + columns.first) * channels;
        for (int32_t c = 0; c < channels; c += PILLION_BLOCK) {
            const int32_t count = pillion_block_count(c, channels);
            pixel(p, x + at + c, rows.last - rows.first, columns.last - columns.first, count, y + c);
        }
    }
}

void pillion_avg_pool2d_s8(const pillion_avg_pool2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            row(p, x, oy * p->stride_h - p->pad_top, y);
            y += p->out_w * p->channels;
        }
        x += p->in_h * p->in_w * p->channels;
    }
}
