/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of one pixel: every pixel of x is a window as it lies there. */
#ifndef PILLION_MVE_POINTWISE_H
#define PILLION_MVE_POINTWISE_H

#include "dot.h"
#include "pillion/mve.h"

void pillion_mve_pointwise(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                           pillion_mve_products dot, pillion_mve_loop loop);
/* The same with 16-bit results, and inputs of any type: windows are made of bytes all the same, and `out_c` of the products is in bytes. */
void pillion_mve_pointwise_16(const pillion_conv2d_1x1_s8_mve_params *p, const void *x, int16_t *y, int8_t *scratch,
                              pillion_mve_products dot, pillion_mve_loop loop);

#endif
