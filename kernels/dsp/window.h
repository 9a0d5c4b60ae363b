/* SPDX-License-Identifier: Apache-2.0
 * Where the windows of a convolution lie in the image, and the walk over them. */
#ifndef PILLION_DSP_WINDOW_H
#define PILLION_DSP_WINDOW_H

#include "dot.h"

/* Row and column of the first tap; outside the image they may be negative. */
typedef struct {
    int32_t top, left;
} window;

static inline window window_of(const pillion_conv2d_s8_dsp_params *p, int32_t pixel) {
    const int32_t oy = pixel / p->out_w;
    const window w = {oy * p->stride_h - p->pad_top, (pixel - oy * p->out_w) * p->stride_w - p->pad_left};
    return w;
}

static inline int is_inside(int32_t position, int32_t size) {
    return (uint32_t)position < (uint32_t)size;
}

/* All taps of the window are inside the image. */
static inline int window_inside(const pillion_conv2d_s8_dsp_params *p, window w) {
    return w.top >= 0 && w.left >= 0 && w.top + (p->kernel_h - 1) * p->dilation_h < p->in_h &&
           w.left + (p->kernel_w - 1) * p->dilation_w < p->in_w;
}

/* Widens the windows of output pixels `pixels[0..2]` into blocks. */
typedef void widen_windows(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, const int32_t pixels[3],
                           void *scratch);

/* Three pixels at a time: their windows, then all output channels. The blocks are at the start of scratch. */
static inline void convolve(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                            widen_windows *widen) {
    const int32_t count = p->out_h * p->out_w;
    const pillion_dsp_dot dot = PILLION_DSP_DOT(p, scratch, count);
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c, y += count * p->out_c) {
        int32_t first = 0;
        for (;;) {
            const int32_t pixels[3] = {first, count > 1 ? first + 1 : first, count > 2 ? first + 2 : count - 1};
            widen(p, x, pixels, scratch);
            pillion_dsp_dot_3(&dot, y + first * p->out_c);
            if (first + 3 >= count) {
                break;
            }
            first = first + 6 <= count ? first + 3 : count - 3; /* the last three overlap those before */
        }
    }
    pillion_dsp_clamp(y - p->batch * count * p->out_c, p->batch * count * p->out_c, p->low, p->high);
}
#endif
