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

/* Products of matrices, for each batch: y[m][n] = clamp(requantize(sum_k((a[m][k] - a_zp) * (b[k][n] - b_zp))) + out_zp,
 * low, high). The steps say how far the next row, column or k is away. */
typedef struct {
    int32_t batch, rows, depth, columns;
    int32_t a_row_step, a_depth_step, b_depth_step, b_column_step;
    int32_t a_zp, b_zp, out_zp, low, high, multiplier, shift;
} pillion_batch_matmul_s8_params;
void pillion_batch_matmul_s8(const pillion_batch_matmul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                             void *scratch);

/* Transposed convolution: each input pixel arrives at input * stride + tap * dilation - pad. Scratch: out_c sums. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [kernel_h][kernel_w][out_c][in_c] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c] */
    const int32_t *shift;      /* [out_c] */
} pillion_transpose_conv2d_s8_params;
void pillion_transpose_conv2d_s8(const pillion_transpose_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch);

/* Which row and column of the image stands at each of the result. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    const int32_t *rows;    /* [out_h] */
    const int32_t *columns; /* [out_w] */
} pillion_resize_nearest_s8_params;
void pillion_resize_nearest_s8(const pillion_resize_nearest_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Two rows and two columns of the image, and how many of 1024 parts come from the second one. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    const int32_t *rows;    /* [out_h][3] */
    const int32_t *columns; /* [out_w][3] */
} pillion_resize_bilinear_s8_params;
void pillion_resize_bilinear_s8(const pillion_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* x as [outer][slopes][inner]: what is negative is multiplied by its slope. */
typedef struct {
    int32_t outer, slopes, inner;
    int32_t in_zp, slope_zp, out_zp, multiplier, shift, slope_multiplier, slope_shift;
} pillion_prelu_s8_params;
void pillion_prelu_s8(const pillion_prelu_s8_params *p, const int8_t *x, const int8_t *slope, int8_t *y, void *scratch);

/* y = clamp(nearest(float(a - a_zp) / float(b - b_zp) * ratio) + out_zp, low, high), 0 for the quotient where b is b_zp.
 * Operands are walked through as walk.h says. */
typedef struct {
    int32_t elements, axes;
    const int32_t *extent; /* [axes] of the result */
    const int32_t *a_step; /* [axes]: 0 where a is broadcast */
    const int32_t *b_step; /* [axes] */
    int32_t a_zp, b_zp, out_zp, low, high;
    const float *ratio;
} pillion_div_s8_params;
void pillion_div_s8(const pillion_div_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* The same in fixed point; the reciprocal of a number is that of its binary digits taken as 1 to 2. */
typedef struct {
    int32_t elements, axes;
    const int32_t *extent;      /* [axes] of the result */
    const int32_t *a_step;      /* [axes]: 0 where a is broadcast */
    const int32_t *b_step;      /* [axes] */
    const int32_t *reciprocals; /* [256] in Q0.31 */
    int32_t a_zp, b_zp, out_zp, low, high, multiplier, shift;
} pillion_div_tflite_s8_params;
void pillion_div_tflite_s8(const pillion_div_tflite_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                           void *scratch);

/* Reductions: for each of `results`, `count` elements of x. Both are walked through as walk.h says. */
typedef struct {
    int32_t results, kept_axes;
    const int32_t *kept_extent; /* [kept_axes] */
    const int32_t *kept_step;   /* [kept_axes] */
    int32_t count, axes;
    const int32_t *extent; /* [axes] */
    const int32_t *step;   /* [axes] */
    int32_t in_zp, out_zp, multiplier, shift; /* of sums */
    const double *ratio;                      /* of sums that are scaled in double precision and rounded once */
} pillion_reduction;
typedef pillion_reduction pillion_reduce_sum_s8_params;
typedef pillion_reduction pillion_reduce_sum_tflite_s8_params;
typedef pillion_reduction pillion_reduce_max_s8_params;
typedef pillion_reduction pillion_reduce_min_s8_params;
void pillion_reduce_sum_s8(const pillion_reduction *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_reduce_sum_tflite_s8(const pillion_reduction *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_reduce_max_s8(const pillion_reduction *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_reduce_min_s8(const pillion_reduction *p, const int8_t *x, int8_t *y, void *scratch);

#endif
