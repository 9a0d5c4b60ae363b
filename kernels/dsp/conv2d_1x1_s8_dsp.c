/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 1x1: pixels are taken three by three and widened once for all output channels. A pixel that is left is
 * done alone where dot_1_dsp.c may do it; else the last three overlap those before and compute a pixel or two again. */
#include "dot.h"

#if PILLION_HAS_DSP

static inline int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* From the first pixel to the second and to the third. */
typedef struct {
    int32_t second, third;
} steps;

static void widen(const pillion_conv2d_1x1_s8_dsp_params *p, const pillion_dsp_dot *dot, const int8_t *x, steps step) {
    pillion_dsp_widen_3(x, x + step.second, x + step.third, dot->blocks, p->in_c / 4, 1, 0);
}

void pillion_dsp_1x1(const pillion_conv2d_1x1_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch,
                     pillion_dsp_beginner *begin, pillion_dsp_one *one) {
    pillion_dsp_dot dot = PILLION_DSP_DOT(p);
    begin(&dot, p->pixels, scratch);
    const int32_t alone = p->pixels % 3 == 1 && p->part_rounds == 0 && p->repeat_count == 0;
    const int32_t pixels = p->pixels - alone;
    const int32_t second = pixels > 1 ? p->in_c : 0;
    const steps step = {second, pixels > 2 ? 2 * second : second};
    for (int32_t pixel = 0; pixel < pixels; pixel += 3) {
        const int32_t first = pixel + 3 > pixels ? pixels - least(pixels, 3) : pixel;
        widen(p, &dot, x + first * p->in_c, step);
        dot.three(&dot, y + first * p->out_c);
    }
    if (alone) {
        widen(p, &dot, x + pixels * p->in_c, (steps){0, 0});
        one(&dot, y + pixels * p->out_c);
    }
    pillion_dsp_clamp(y, p->pixels * p->out_c, p->low, p->high);
}

void pillion_conv2d_1x1_s8_dsp(const pillion_conv2d_1x1_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_dsp_1x1(p, x, y, scratch, pillion_dsp_dot_begin, pillion_dsp_dot_1);
}
#endif
