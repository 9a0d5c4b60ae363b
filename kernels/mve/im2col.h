/* SPDX-License-Identifier: Apache-2.0
 * Convolution as a matrix product; the kernels differ in the dot products that they take. */
#ifndef PILLION_MVE_IM2COL_H
#define PILLION_MVE_IM2COL_H

#include "dot.h"
#include "pillion/mve.h"

void pillion_mve_im2col(const pillion_conv2d_im2col_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_products dot, pillion_mve_loop loop);
/* The same with 16-bit results, and inputs of any type: windows are made of bytes all the same, and `out_c` of the products is in bytes. */
void pillion_mve_im2col_16(const pillion_conv2d_im2col_s8_mve_params *p, const void *x, int16_t *y, int8_t *scratch,
                           pillion_mve_products dot, pillion_mve_loop loop);

#endif
