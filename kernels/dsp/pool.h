/* SPDX-License-Identifier: Apache-2.0
 * The walk of a pooling over its windows. */
#ifndef PILLION_DSP_POOL_H
#define PILLION_DSP_POOL_H

#include "dot.h"

/* The part of a window that lies inside the image. */
typedef struct {
    const int8_t *first; /* its first pixel */
    int32_t rows, columns;
    int32_t channels;  /* bytes from a pixel to the next */
    int32_t row_bytes; /* from a row of the image to the next */
} pooled;

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static inline int32_t largest(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Calls `pool` for every window; it writes one pixel of outputs. */
static inline void for_each_window(const pillion_pool_s8_params *p, const int8_t *x, int8_t *y,
                                   void (*pool)(const pooled *window, int8_t *y)) {
    pooled w = {.channels = p->channels, .row_bytes = p->in_w * p->channels};
    int8_t *next = y;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * w.row_bytes) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            const int32_t top = oy * p->stride_h - p->pad_top, first_row = largest(top, 0);
            w.rows = least(top + p->kernel_h, p->in_h) - first_row;
            for (int32_t ox = 0; ox < p->out_w; ox++, next += p->channels) {
                const int32_t left = ox * p->stride_w - p->pad_left, first_column = largest(left, 0);
                w.columns = least(left + p->kernel_w, p->in_w) - first_column;
                w.first = x + first_row * w.row_bytes + first_column * p->channels;
                pool(&w, next);
            }
        }
    }
    pillion_dsp_clamp(y, (int32_t)(next - y), p->low, p->high);
}
#endif
