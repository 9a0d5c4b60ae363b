/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of a pixel and four channels at a time, straight from the image.
 *
 * Who includes this defines params, element and weight; NUMBERS, those of a channel; and of four channels add_tap, and results_of. */
#ifndef PILLION_DSP_DEPTHWISE_PIXELS_H
#define PILLION_DSP_DEPTHWISE_PIXELS_H

#include "pillion/window.h"

#include <string.h>

#if PILLION_HAS_DSP

/* The taps of a window that lie inside the image; what x and the weights skip at the end of a row, in elements. */
typedef struct {
    int32_t rows, columns, step, x_skip, w_skip, left; /* channels that are left */
    uint32_t zps;
} window;

/* Four channels, or those that are left. */
static __attribute__((noinline)) void four(const window *t, const element *x, const weight *w, const int32_t *numbers, element *y) {
    const int32_t step = t->step;
    const uint32_t zps = t->zps;
    sums s = {numbers[0], numbers[1], numbers[2], numbers[3]};
    for (int32_t ky = t->rows; ky > 0; ky--, x += t->x_skip, w += t->w_skip) {
        for (int32_t kx = t->columns; kx > 0; kx--, x += step, w += 4) {
            s = add_tap(s, x, w, zps);
        }
    }
    element results[4];
    results_of(s, numbers + 4, results);
    if (t->left >= 4) {
        memcpy(y, results, sizeof results);
        return;
    }
    for (int32_t i = 0; i < t->left; i++) {
        y[i] = results[i];
    }
}

static inline void convolve_pixels(const params *p, const element *x, element *y) {
    const int32_t channels = p->channels, taps = p->kernel_h * p->kernel_w;
    for (int32_t at = 0; at < p->batch * p->out_h * p->out_w; at++) {
        const int32_t top = at / p->out_w % p->out_h * p->stride_h - p->pad_top;
        const int32_t left = at % p->out_w * p->stride_w - p->pad_left;
        const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
        const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
        const element *from = x + at / p->out_w / p->out_h * (p->in_h * p->in_w * channels) +
                              ((top + rows.first * p->dilation_h) * p->in_w + left + columns.first * p->dilation_w) * channels;
        const weight *w = p->weights + (rows.first * p->kernel_w + columns.first) * 4;
        const int32_t *numbers = p->numbers;
        window t = {rows.last - rows.first, columns.last - columns.first, p->dilation_w * channels, 0, 0, channels, (uint32_t)(uint16_t)p->in_zp * 0x10001u};
        t.x_skip = p->dilation_h * p->in_w * channels - t.columns * t.step, t.w_skip = 4 * (p->kernel_w - t.columns);
        for (; t.left > 0; t.left -= 4, from += 4, w += taps * 4, numbers += 4 * NUMBERS) {
            four(&t, from, w, numbers, y);
            y += t.left < 4 ? t.left : 4;
        }
    }
}
#endif

#endif
