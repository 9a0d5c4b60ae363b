/* SPDX-License-Identifier: Apache-2.0
 * The input rows of some output rows of a 3x3 convolution, copied into scratch as planes: [row][16 channels][column][16], padding
 * included. Consecutive kernel rows, and planes, are equally far apart. */
#ifndef PILLION_MVE_PLANES_H
#define PILLION_MVE_PLANES_H

#include "pillion/mve.h"

/* Makes some rows of outputs of their planes. */
typedef void (*pillion_mve_plane_rows)(const pillion_conv2d_3x3_s8_mve_params *p, int8_t *planes, int8_t *y, int32_t rows);

/* A whole convolution, some rows at a time. */
void pillion_mve_planes(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                        pillion_mve_plane_rows output_rows);
/* The same with 16-bit results, and inputs of any type: planes are made of bytes all the same, and `out_c` of the rows is in bytes. */
void pillion_mve_planes_16(const pillion_conv2d_3x3_s8_mve_params *p, const void *x, int16_t *y, int8_t *scratch,
                           pillion_mve_plane_rows output_rows);

/* The scratch memory behind the planes. */
static inline int8_t *pillion_mve_behind_planes(const pillion_conv2d_3x3_s8_mve_params *p, int8_t *planes) {
    return planes + p->scratch_rows * p->planes * p->plane_bytes;
}

/* All pixels of some rows, from `y` on; for four channels, for some groups of eight, and for two of 16 bits. */
void pillion_mve_3x3_fours(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *planes, int8_t *y, int32_t rows,
                           const int32_t *numbers, const void *weights);
void pillion_mve_3x3_eights(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *planes, int8_t *y, int32_t rows,
                            int32_t groups, const int32_t *constants);
void pillion_mve_3x3_twos(const pillion_conv2d_3x3_s8_mve_params *p, const int8_t *planes, int8_t *y, int32_t rows,
                          const int32_t *numbers, const void *weights);

#endif
