/* SPDX-License-Identifier: Apache-2.0
 * Kernels for the computer that Pillion itself runs on: x86 with AVX2 at least. They are no part of a product; `--native` takes
 * them where a program is run on this computer. Their signatures are those of kernels.h. */
#ifndef PILLION_HOST_H
#define PILLION_HOST_H

#include <stdint.h>

#include "pillion/kernels.h"

/* How the sums of some channels are scaled: as everywhere, by shifts to the right of at most 31. Sums are less than 2 to the
 * power of 30. `rectified` says that results below out_zp become out_zp or more, and that shifts are 2 at least. */
#define PILLION_SCALES_FIELDS                                                        \
    int32_t rectified;                                                               \
    const int32_t *multiplier; /* and one element more, which may be anything */     \
    const int32_t *right;      /* the shift; if rectified, 1 less */                 \
    const int32_t *half;       /* 2 to the power of right - 1 */

/* The channels of a block of weights; the last block may have fewer, in multiples of 16. */
enum { PILLION_BLOCK_CHANNELS = 64 };

/* Convolution in one group, as conv2d_s8: y = clamp(requantize(bias + sum(x * w)) + out_zp, low, high), x being counted
 * from -128. `strip_rows` rows of the result are made at a time. The image rows for these are copied to scratch, with in_zp where the image ends,
 * as rows of row_bytes. A kernel row is a run of `fours` times 4 bytes there, the last ones with weight 0 if they are too many;
 * neighbouring pixels are column_step bytes apart, and kernel rows kernel_row_step. Scratch is as large as the copied rows and
 * 64 bytes more. A fully connected layer is an image of one column. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, stride_h, dilation_h, pad_top, pad_left;
    int32_t row_bytes, column_step, kernel_row_step, fours, strip_rows;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights; /* of each block of channels: [kernel_h][fours][channels][4] */
    const int32_t *bias;   /* [out_c in whole sixteens] - (in_zp + 128) * sum(w) */
    PILLION_SCALES_FIELDS  /* [out_c in whole sixteens] */
} pillion_conv2d_s8_host_params;
void pillion_conv2d_s8_host(const pillion_conv2d_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Depthwise convolution. The rows of a window are taken in fours, side by side: `columns` columns of the padded image are zipped
 * to scratch for a block of channels, from which each result is a sum over kernel_w columns. Scratch: columns * fours * 256
 * bytes. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t columns, fours;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights; /* [kernel_w][fours][channels in whole blocks][4]; rows that are missing have weight 0 */
    const int32_t *bias;   /* [channels in whole blocks] - (in_zp + 128) * sum(w) */
    PILLION_SCALES_FIELDS  /* [channels in whole blocks] */
} pillion_depthwise_conv2d_s8_host_params;
void pillion_depthwise_conv2d_s8_host(const pillion_depthwise_conv2d_s8_host_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);

/* y = clamp((a * x1 + b * x2 + c) >> shift, low, high); x2 is as long as a row of x1. */
typedef struct {
    int32_t rows, count, a, b, c, shift, low, high;
} pillion_sum_s8_host_params;
void pillion_sum_s8_host(const pillion_sum_s8_host_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* y = clamp(requantize((x1 - zp1) * (x2 - zp2)) + out_zp, low, high) by a shift to the right, 1 to 31; x2 is as long as a row of
 * x1. */
typedef struct {
    int32_t rows, count, zp1, zp2, multiplier, right, out_zp, low, high;
} pillion_mul_s8_host_params;
void pillion_mul_s8_host(const pillion_mul_s8_host_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* Any function of one int8: y = table[x + 128]. */
typedef pillion_lut_s8_params pillion_lut_s8_host_params;
void pillion_lut_s8_host(const pillion_lut_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch);

/* float32 to int8, as quantize_s8. */
typedef pillion_quantize_s8_params pillion_quantize_s8_host_params;
void pillion_quantize_s8_host(const pillion_quantize_s8_host_params *p, const float *x, int8_t *y, void *scratch);

/* Matrices of two to four rows, the other way round: y[column][row] = x[row][column]. */
typedef struct {
    int32_t batch, rows, columns;
} pillion_interleave_s8_host_params;
void pillion_interleave_s8_host(const pillion_interleave_s8_host_params *p, const int8_t *x, int8_t *y, void *scratch);

#endif
