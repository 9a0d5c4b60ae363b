/* SPDX-License-Identifier: Apache-2.0
 * The kernels of Pillion. Every kernel has one shape of signature:
 *
 *     void pillion_NAME(const pillion_NAME_params *p, const IN *x ..., OUT *y ..., void *scratch);
 *
 * `params` holds all that the compiler knows: shapes, zero points, bounds and pointers to constants in flash, packed in
 * the order in which this kernel reads them. `scratch` is as large as the compiler was told (NULL where it is 0).
 * Images are NHWC. Shapes are checked by the compiler; kernels check nothing. No malloc, no globals, no stdio. */
#ifndef PILLION_KERNELS_H
#define PILLION_KERNELS_H

#include <stdint.h>

/* Convolution: y = clamp(requantize(bias + sum((x - in_zp) * w)) + out_zp, low, high); outside the image x is in_zp. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c] */
    const int32_t *shift;      /* [out_c]: positive is a left shift */
} pillion_conv2d_s8_params;
void pillion_conv2d_s8(const pillion_conv2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* As conv2d, each input channel on its own: output channel = input channel * (out_c / in_c) + m. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [kernel_h][kernel_w][out_c] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c] */
    const int32_t *shift;      /* [out_c] */
} pillion_depthwise_conv2d_s8_params;
void pillion_depthwise_conv2d_s8(const pillion_depthwise_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch);

/* y[row][n] = clamp(requantize(bias[n] + sum_k((x[row][k] - in_zp) * w[n][k])) + out_zp, low, high) */
typedef struct {
    int32_t rows, in_features, out_features;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [out_features][in_features] */
    const int32_t *bias;       /* [out_features] */
    const int32_t *multiplier; /* [out_features] */
    const int32_t *shift;      /* [out_features] */
} pillion_linear_s8_params;
void pillion_linear_s8(const pillion_linear_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

#endif
