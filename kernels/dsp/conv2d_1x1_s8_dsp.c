/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 1x1: pixels are taken three by three and widened once for all output channels. Where their number is
 * no multiple of three, the last block overlaps the one before it and computes a pixel or two again. */
#include "dot.h"

#if PILLION_HAS_DSP

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

void pillion_conv2d_1x1_s8_dsp(const pillion_conv2d_1x1_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_dot dot = PILLION_DSP_DOT(p);
    pillion_dsp_dot_begin(&dot, p->pixels, scratch);
    const int32_t second = p->pixels > 1 ? p->in_c : 0;
    const int32_t third = p->pixels > 2 ? second + p->in_c : second;
    int32_t pixel = 0;
    for (;;) {
        const int8_t *const first = x + pixel * p->in_c;
        pillion_dsp_widen_3(first, first + second, first + third, dot.blocks, p->in_c / 4, 1, 0);
        pillion_dsp_dot_3(&dot, y + pixel * p->out_c);
        if (pixel + 3 >= p->pixels) {
            break;
        }
        pixel = least(pixel + 3, p->pixels - 3);
    }
    pillion_dsp_clamp(y, p->pixels * p->out_c, p->low, p->high);
}
#endif
