/* SPDX-License-Identifier: Apache-2.0
 * Convolution of any window over channels that come in fours. The windows of three pixels are widened straight from the
 * image: kernel rows in one piece where all three lie inside it, else tap by tap; for a tap outside the image, from
 * zero points that follow the blocks in scratch. */
#include "window.h"

#include <string.h>

#if PILLION_HAS_DSP

static void widen_inside(const windows *s) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const window *const w = s->w;
    const uint32_t row_bytes = (uint32_t)(p->kernel_w * p->in_c);
    pillion_dsp_widen_3(tap(s, w[0].top, w[0].left), tap(s, w[1].top, w[1].left), tap(s, w[2].top, w[2].left),
                        s->dot.blocks, (int32_t)(row_bytes / 4), p->kernel_h,
                        p->dilation_h * p->in_w * p->in_c - (int32_t)row_bytes);
}

static void widen_by_tap(const windows *s) {
    const pillion_conv2d_s8_dsp_params *const p = s->p;
    const int32_t fours = (int32_t)((uint32_t)p->in_c / 4);
    int32_t *blocks = s->dot.blocks;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int8_t *x[3]; /* of the next taps */
        int32_t column[3];
        uint32_t columns[3]; /* of this row: none where it is outside */
        for (int32_t i = 0; i < 3; i++) {
            const int32_t row = s->w[i].top + ky * p->dilation_h;
            column[i] = s->w[i].left;
            columns[i] = is_inside(row, p->in_h) ? (uint32_t)p->in_w : 0;
            x[i] = tap(s, row, column[i]);
        }
        for (int32_t kx = p->kernel_w; kx > 0; kx--) {
            const int8_t *seen[3];
            for (int32_t i = 0; i < 3; i++) {
                seen[i] = (uint32_t)column[i] < columns[i] ? x[i] : s->dot.rest;
                x[i] += p->dilation_w * p->in_c, column[i] += p->dilation_w;
            }
            pillion_dsp_widen_3(seen[0], seen[1], seen[2], blocks, fours, 1, 0);
            blocks += fours * PILLION_DSP_BLOCK_WORDS;
        }
    }
}

static void widen_from_image(const windows *s) {
    if (s->inside && s->p->dilation_w == 1) {
        widen_inside(s);
    } else {
        widen_by_tap(s);
    }
}

void pillion_dsp_any_window(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                            pillion_dsp_beginner *begin) {
    windows s = windows_of(p, scratch, begin);
    memset(s.dot.rest, p->in_zp, (size_t)p->in_c);
    convolve(&s, x, y, widen_from_image);
}

void pillion_conv2d_s8_dsp(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_any_window(p, x, y, scratch, pillion_dsp_dot_begin);
}
#endif
