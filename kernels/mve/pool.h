/* SPDX-License-Identifier: Apache-2.0
 * Windows of pooling, 16 channels at a time; they exclude pixels outside the image. */
#ifndef PILLION_MVE_POOL_H
#define PILLION_MVE_POOL_H

#include <stdint.h>

#include "bytes.h"
#include "pillion/mve.h"
#include "pillion/window.h"

/* A window of 16 channels, or of the first `left` of them where there are fewer. */
typedef struct {
    int32_t rows, columns;
    int32_t pixel_bytes, row_skip; /* from pixel to pixel, and from behind a row's last one to the next row */
    int32_t left;
} pillion_mve_window;

typedef void (*pillion_mve_pool_window)(const pillion_mve_window *w, const int8_t *x, int8_t *y);

static inline void pillion_mve_pool_pixel(const pillion_pool_s8_params *p, const int8_t *x, int32_t top, int32_t left,
                                          int8_t *y, pillion_mve_pool_window window) {
    const pillion_range rows = pillion_taps_inside(top, 1, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, 1, p->kernel_w, p->in_w);
    pillion_mve_window w = {rows.last - rows.first, columns.last - columns.first, p->channels, 0, 0};
    w.row_skip = (p->in_w - w.columns) * p->channels;
    x += ((top + rows.first) * p->in_w + left + columns.first) * p->channels;
    for (int32_t c = 0; c < p->channels; c += 16) {
        w.left = p->channels - c;
        window(&w, x + c, y + c);
    }
}

static inline void pillion_mve_pool(const pillion_pool_s8_params *p, const int8_t *x, int8_t *y,
                                    pillion_mve_pool_window window) {
    int8_t *out = y;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++, out += p->channels) {
                pillion_mve_pool_pixel(p, x, oy * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left, out, window);
            }
        }
    }
    pillion_mve_clamp(y, (int32_t)(out - y), p->low, p->high);
}

#endif
