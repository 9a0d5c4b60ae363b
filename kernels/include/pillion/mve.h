/* SPDX-License-Identifier: Apache-2.0
 * The Helium (MVE) variants of the kernels. Their constants are packed by pillion/emitters/c/mve.py in the order in which
 * the loops read them; what a variant needs to be right is checked there, at compile time.
 *
 * "May read N bytes beyond": loads are 16 bytes wide; what is read beyond the end meets zero weights, but must be memory. */
#ifndef PILLION_MVE_H
#define PILLION_MVE_H

#include <stdint.h>

/* Convolution whose windows lie in one piece: kernel 1x1, any stride, no padding. K = in_c.
 * May read 15 bytes beyond x. */
typedef struct {
    int32_t images, image_bytes;     /* x of one image */
    int32_t rows, row_bytes;         /* rows of output pixels; from one to the next in x */
    int32_t pixels, pixel_bytes;     /* pixels of a row; from one to the next in x */
    int32_t out_c, chunks;           /* K in pieces of 16, rounded up */
    int32_t out_zp, low, high;
    const int32_t *constants;        /* see pillion_mve_dot */
} pillion_conv2d_1x1_s8_mve_params;
void pillion_conv2d_1x1_s8_mve(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch);

#endif
