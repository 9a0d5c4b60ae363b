/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of one pixel: every pixel of x is a window as it lies there. */
#ifndef PILLION_MVE_POINTWISE_H
#define PILLION_MVE_POINTWISE_H

#include "dot.h"
#include "pillion/mve.h"

void pillion_mve_pointwise(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                           pillion_mve_products dot, pillion_mve_loop loop);

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

/* The same with 16-bit results, and inputs of any type: windows are made of bytes all the same. */
static inline void pillion_mve_pointwise_16(const pillion_conv2d_1x1_s8_mve_params *p, const void *x, int16_t *y, int8_t *scratch,
                                       pillion_mve_products dot, pillion_mve_loop loop) {
    pillion_conv2d_1x1_s8_mve_params bytes = *p;
    bytes.out_c = 2 * p->out_c;
    bytes.low = INT8_MIN;
    bytes.high = INT8_MAX;
    pillion_mve_pointwise(&bytes, x, (int8_t *)y, scratch, dot, loop);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, p->images * p->rows * p->pixels * p->out_c, p->low, p->high);
    }
}
#endif

#endif
