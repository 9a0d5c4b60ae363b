/* SPDX-License-Identifier: Apache-2.0
 * Transposed convolution, row by row of the outputs, by conv2d_s8_dsp.c or conv2d_s16_dsp.c. Outputs whose places differ by whole strides take
 * the same weights; so the stride_w outputs that belong to one column of inputs are a pixel with stride_w times as many
 * channels, and y is as it should be. The compiler makes the weights (subpixel.py). */
#ifndef PILLION_DSP_TRANSPOSE_CONV2D_H
#define PILLION_DSP_TRANSPOSE_CONV2D_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

#include <string.h>

/* The body of a kernel: a call for each row of the result. */
#define PILLION_DSP_TRANSPOSE_CONV2D(type)                                                         \
    pillion_conv2d_##type##_dsp_params row; /* what both structs begin with */                     \
    void *const wide = (int8_t *)scratch + p->room; /* a row, if it has more than y */             \
    memcpy(&row, p, sizeof row);                                                                   \
    row.batch = 1;                                                                                 \
    y += p->y_offset;                                                                              \
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c, y += p->y_image) {    \
        for (int32_t i = 0; i < p->rows; i++) {                                                    \
            row.pad_top = p->pad_top - i;                                                          \
            pillion_conv2d_##type##_dsp(&row, x, p->kept != 0 ? wide : y + i * p->y_row, scratch); \
            memcpy(y + i * p->y_row, wide, (size_t)p->kept * sizeof *y);                           \
        }                                                                                          \
    }

#endif
