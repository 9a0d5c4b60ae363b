/* SPDX-License-Identifier: Apache-2.0
 * Kernels for cores that multiply one pair of numbers at a time: Armv6-M, Armv7-M, Armv8-M without the DSP extension
 * (Cortex-M0, -M0+, -M1, -M3, -M23, and -M33 where that is left out). What is loaded meets several others while it is
 * in a register. Their constants are packed by pillion/emitters/c/scalar/; what a variant needs to be right is checked
 * there, at compile time. Scratch is aligned to 4 bytes. The answers are those of the portable kernels, bit for bit. */
#ifndef PILLION_SCALAR_H
#define PILLION_SCALAR_H

#include <stdint.h>

#include "pillion/kernels.h"

/* Output channels come in pairs: 0 and 1, 2 and 3 ..., the last pair being the last two. */
#define PILLION_SCALAR_FIELDS                                                                              \
    const int8_t *weights;    /* [pairs][inputs][2] */                                                     \
    const int32_t *constants; /* [pairs] of bias, bias, and for each: round, multiplier, right shift */   \
    int32_t inputs;           /* of a sum, in whole fours: those that are missing have weight 0 */         \
    int32_t out_c, low, high;

/* Convolution with a kernel of 1x1, stride 1, no padding, and fully connected layers. Of each pixel `inputs` bytes are read. */
typedef struct {
    PILLION_SCALAR_FIELDS
    int32_t pixels, in_c; /* pixels of all images */
} pillion_conv2d_1x1_s8_scalar_params;
void pillion_conv2d_1x1_s8_scalar(const pillion_conv2d_1x1_s8_scalar_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution with any kernel, stride, dilation and padding. */
typedef struct {
    PILLION_SCALAR_FIELDS
    int32_t batch, in_h, in_w, in_c, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, in_zp;
} pillion_conv2d_s8_scalar_params;
void pillion_conv2d_s8_scalar(const pillion_conv2d_s8_scalar_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Depthwise convolution. A row is what lies along the axis that four outputs suit better, be that the image's width or its
 * height: elements are `step` bytes apart, rows `row_step`. y may be x where no row is overwritten before it is read. */
typedef struct {
    int32_t batch, channels, in_h, in_w, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, in_zp, low, high;
    int32_t x_step, x_row_step, y_step, y_row_step;
    const int8_t *weights;    /* [channels][kernel_h][kernel_w] */
    const int32_t *constants; /* [channels] of bias, round, multiplier, right shift */
} pillion_depthwise_conv2d_s8_scalar_params;
void pillion_depthwise_conv2d_s8_scalar(const pillion_depthwise_conv2d_s8_scalar_params *p, const int8_t *x, int8_t *y,
                                        void *scratch);

/* Addition, subtraction: clamp((a * x1 + b * x2 + c) >> shift). x1 and y are rows of `count` bytes, x2 is one row. */
typedef struct {
    int32_t rows, count, a, b, c, shift, low, high;
} pillion_sum_s8_scalar_params;
void pillion_sum_s8_scalar(const pillion_sum_s8_scalar_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* Product: clamp(requantize((x1 - zp1) * (x2 - zp2)) + out_zp); rows as above. round = (2 * out_zp + 1) << (right - 1). */
typedef struct {
    int32_t rows, count, zp1, zp2, round, multiplier, right, low, high;
} pillion_mul_s8_scalar_params;
void pillion_mul_s8_scalar(const pillion_mul_s8_scalar_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* From and to float32, as pillion_quantize_s8 and pillion_dequantize_s8. */
typedef pillion_quantize_s8_params pillion_quantize_s8_scalar_params;
void pillion_quantize_s8_scalar(const pillion_quantize_s8_scalar_params *p, const float *x, int8_t *y, void *scratch);
typedef pillion_dequantize_s8_params pillion_dequantize_s8_scalar_params;
void pillion_dequantize_s8_scalar(const pillion_dequantize_s8_scalar_params *p, const int8_t *x, float *y, void *scratch);

#endif
