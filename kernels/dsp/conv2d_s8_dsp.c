/* SPDX-License-Identifier: Apache-2.0
 * Convolution of any window over channels that come in fours. The windows of three pixels are widened straight from the
 * image: kernel rows in one piece where all three lie inside it, else tap by tap; for a tap outside the image, from
 * zero points that follow the blocks in scratch. */
#include "window.h"

#include <string.h>

#if PILLION_HAS_DSP

static void widen_inside(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, const window w[3], int32_t *blocks) {
    const int8_t *x0 = image + (w[0].top * p->in_w + w[0].left) * p->in_c;
    const int8_t *x1 = image + (w[1].top * p->in_w + w[1].left) * p->in_c;
    const int8_t *x2 = image + (w[2].top * p->in_w + w[2].left) * p->in_c;
    const int32_t below = p->dilation_h * p->in_w * p->in_c;
    const int32_t fours = p->kernel_w * p->in_c / 4;
    for (int32_t ky = p->kernel_h; ky > 0; ky--) {
        pillion_dsp_widen_3(x0, x1, x2, blocks, fours);
        x0 += below, x1 += below, x2 += below, blocks += fours * PILLION_DSP_BLOCK_WORDS;
    }
}

static void widen_by_tap(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, const window w[3], int32_t *blocks) {
    const int8_t *const outside = (const int8_t *)(blocks + p->steps * PILLION_DSP_BLOCK_WORDS);
    const int32_t fours = p->in_c / 4;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int8_t *x[3];
            for (int32_t i = 0; i < 3; i++) {
                const int32_t row = w[i].top + ky * p->dilation_h;
                const int32_t column = w[i].left + kx * p->dilation_w;
                const int inside = is_inside(row, p->in_h) && is_inside(column, p->in_w);
                x[i] = inside ? image + (row * p->in_w + column) * p->in_c : outside;
            }
            pillion_dsp_widen_3(x[0], x[1], x[2], blocks, fours);
            blocks += fours * PILLION_DSP_BLOCK_WORDS;
        }
    }
}

static void widen_from_image(const pillion_conv2d_s8_dsp_params *p, const int8_t *image, const int32_t pixels[3],
                             void *scratch) {
    const window w[3] = {window_of(p, pixels[0]), window_of(p, pixels[1]), window_of(p, pixels[2])};
    const int inside = window_inside(p, w[0]) && window_inside(p, w[1]) && window_inside(p, w[2]);
    if (inside && p->dilation_w == 1) {
        widen_inside(p, image, w, scratch);
    } else {
        widen_by_tap(p, image, w, scratch);
    }
}

void pillion_conv2d_s8_dsp(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int8_t *const outside = (int8_t *)scratch + 4 * p->steps * PILLION_DSP_BLOCK_WORDS;
    memset(outside, p->in_zp, (size_t)p->in_c);
    convolve(p, x, y, scratch, widen_from_image);
}
#endif
