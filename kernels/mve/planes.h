/* SPDX-License-Identifier: Apache-2.0
 * The input rows of some output rows of a 3x3 convolution, copied into scratch as planes: [row][16 channels][column][16], padding
 * included, so that any two kernel rows or planes are the same distance apart. */
#ifndef PILLION_MVE_PLANES_H
#define PILLION_MVE_PLANES_H

#include "pillion/mve.h"

/* Makes some rows of outputs of their planes. */
typedef void (*pillion_mve_plane_rows)(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *planes, int8_t *y, int32_t rows);

/* A whole convolution, some rows at a time. */
void pillion_mve_planes(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_plane_rows output_rows);

#endif
