/* SPDX-License-Identifier: Apache-2.0
 * Transposed convolution, row by row of the outputs, by conv2d_im2col_s8_mve.c or conv2d_im2col_s16_mve.c. Outputs at distances of whole
 * strides have the same weights: the stride_w outputs of one column of inputs form a pixel with stride_w times as many channels,
 * and y has its usual layout. The compiler makes the weights (subpixel.py). */
#ifndef PILLION_MVE_TRANSPOSE_CONV2D_H
#define PILLION_MVE_TRANSPOSE_CONV2D_H

#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include <string.h>

#include "pillion/assembly.h"

PILLION_BEGINS_WITH(pillion_transpose_conv2d_s8_mve_params, pillion_conv2d_im2col_s8_mve_params, rows);

/* The body of a kernel: a call for each row of the result. */
#define PILLION_MVE_TRANSPOSE_CONV2D(type)                                                                \
    pillion_conv2d_im2col_##type##_mve_params row; /* the fields at the beginning of both structs */      \
    void *const wide = (int8_t *)scratch + p->room; /* a row, if it has more than y */                    \
    memcpy(&row, p, sizeof row);                                                                          \
    row.images = 1;                                                                                       \
    y += p->y_offset;                                                                                     \
    for (int32_t n = 0; n < p->images; n++, y += p->y_image) {                                            \
        for (int32_t i = 0; i < p->rows; i++) {                                                           \
            row.pad_top = p->pad_top - i;                                                                 \
            row.end_top = 1 - row.pad_top;                                                                \
            pillion_conv2d_im2col_##type##_mve(&row, x, p->kept != 0 ? wide : y + i * p->y_row, scratch); \
            memcpy(y + i * p->y_row, wide, (size_t)p->kept * sizeof *y);                                  \
        }                                                                                                 \
        x += p->in_h * p->in_row_bytes / (int32_t)sizeof *x;                                              \
    }

#endif

#endif
