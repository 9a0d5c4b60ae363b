/* SPDX-License-Identifier: Apache-2.0
 * Pooling walks over its windows, which exclude pixels outside the image. */
#ifndef PILLION_POOL_H
#define PILLION_POOL_H

#include "pillion/blocks.h"
#include "pillion/kernels.h"
#include "pillion/window.h"

/* Up to PILLION_BLOCK channels of one output pixel; x is at the first tap inside the image. */
typedef void pillion_pool_pixel(const pillion_pool_s8_params *p, const int8_t *x, int32_t rows, int32_t columns, int32_t count,
                                int8_t *y);

static inline void pillion_pool_row(const pillion_pool_s8_params *p, const int8_t *x, int32_t top, int8_t *y,
                                     pillion_pool_pixel *pixel) {
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

PILLION_INLINE void pillion_pool(const pillion_pool_s8_params *p, const int8_t *x, int8_t *y, pillion_pool_pixel *pixel) {
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            pillion_pool_row(p, x, oy * p->stride_h - p->pad_top, y, pixel);
            y += p->out_w * p->channels;
        }
        x += p->in_h * p->in_w * p->channels;
    }
}

#endif
