/* SPDX-License-Identifier: Apache-2.0
 * The walk of a convolution over its windows, three at a time. */
#ifndef PILLION_DSP_WINDOW_H
#define PILLION_DSP_WINDOW_H

#include "dot.h"

/* Row and column of the first tap; outside the image they may be negative. */
typedef struct {
    int32_t top, left;
} window;

/* The windows of three output pixels, one after the other. */
typedef struct {
    const pillion_conv2d_s8_dsp_params *p;
    pillion_dsp_dot dot;
    const int8_t *image;
    window w[3];
    int inside; /* all their taps are in the image */
    /* For the walk: the next window, pixels that its row of outputs has left, and where windows reach the ends. */
    window next;
    int32_t left_of_row, last_top, last_left;
    int columns_inside; /* of all windows */
} windows;

static inline int is_inside(int32_t position, int32_t size) {
    return (uint32_t)position < (uint32_t)size;
}

static inline const int8_t *tap(const windows *s, int32_t row, int32_t column) {
    return s->image + (row * s->p->in_w + column) * s->p->in_c;
}

static inline windows windows_of(const pillion_conv2d_s8_dsp_params *p, void *scratch, pillion_dsp_beginner *begin) {
    windows s = {.p = p, .dot = PILLION_DSP_DOT(p)};
    begin(&s.dot, p->out_h * p->out_w, scratch);
    s.last_top = p->in_h - 1 - (p->kernel_h - 1) * p->dilation_h;
    s.last_left = p->in_w - 1 - (p->kernel_w - 1) * p->dilation_w;
    s.columns_inside = p->pad_left == 0 && (p->out_w - 1) * p->stride_w <= s.last_left;
    return s;
}

static inline void start_at(windows *s, int32_t pixel) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const int32_t oy = pixel / p->out_w;
    const int32_t ox = pixel - oy * p->out_w;
    s->next.top = oy * p->stride_h - p->pad_top, s->next.left = ox * p->stride_w - p->pad_left;
    s->left_of_row = p->out_w - ox;
}

static inline void next_window(windows *s) {
    s->next.left += s->p->stride_w;
    if (--s->left_of_row == 0) {
        s->left_of_row = s->p->out_w, s->next.left = -s->p->pad_left, s->next.top += s->p->stride_h;
    }
}

/* The next three of `pixels` windows; where these are fewer, the last one again. */
static inline void take_three(windows *s, int32_t pixels) {
    window *const w = s->w;
    w[0] = s->next;
    if (s->left_of_row > 3) { /* nothing to look out for */
        const int32_t step = s->p->stride_w;
        w[1].top = w[2].top = w[0].top;
        w[1].left = w[0].left + step, w[2].left = w[1].left + step, s->next.left = w[2].left + step;
        s->left_of_row -= 3;
    } else {
        for (int32_t i = 1; i < 4; i++) {
            if (i < pixels) {
                next_window(s);
            }
            if (i < 3) {
                w[i] = s->next;
            }
        }
    }
    const int rows = w[0].top >= 0 && w[2].top <= s->last_top;
    const int columns = w[0].left >= 0 && w[2].left <= s->last_left && w[0].top == w[2].top;
    s->inside = rows && (columns || s->columns_inside);
}

/* Widens the three windows into the blocks. */
typedef void widen_windows(const windows *s);

/* The last three pixels overlap those before where their number is no multiple of three. */
static inline void convolve_image(windows *s, int8_t *y, widen_windows *widen) {
    const int32_t count = s->p->out_h * s->p->out_w;
    start_at(s, 0);
    for (int32_t first = 0; first < count; first += 3) {
        if (first + 3 > count && count > 3) {
            first = count - 3;
            start_at(s, first);
        }
        take_three(s, count - first);
        widen(s);
        s->dot.three(&s->dot, y + first * s->p->out_c);
    }
}

static inline void convolve(windows *s, const int8_t *x, int8_t *y, widen_windows *widen) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const int32_t image_bytes = p->out_h * p->out_w * p->out_c;
    for (int32_t n = 0; n < p->batch; n++) {
        s->image = x + n * p->in_h * p->in_w * p->in_c;
        convolve_image(s, y + n * image_bytes, widen);
    }
    pillion_dsp_clamp(y, p->batch * image_bytes, p->low, p->high);
}
#endif
