/* SPDX-License-Identifier: Apache-2.0
 * Layers and pools with 16-bit operands and results, both with the zero point 0; 8-bit operands have their own. */
#ifndef PILLION_LAYERS16_H
#define PILLION_LAYERS16_H

#include <stdint.h>

#include "pillion/choosing.h"

/* y = clamp((bias + sum(x * w)) * multiplier / 2^right, low, high), rounded once, half up. The sums have 64 bits. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c]: 15 bits of multiplier, above them the part of the bias beyond 32 bits */
    const int32_t *right;      /* [out_c]: 1 to 46 */
} pillion_conv2d_s16_params;
void pillion_conv2d_s16(const pillion_conv2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Convolution of 8-bit operands with 16-bit results. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups, in_zp, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c]: 15 bits */
    const int32_t *right;      /* [out_c]: 1 to 46 */
} pillion_conv2d_s8_s16_params;
void pillion_conv2d_s8_s16(const pillion_conv2d_s8_s16_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Depthwise convolution of 16-bit operands: a sum for each channel on its own. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, low, high;
    const int8_t *weights;     /* [kernel_h][kernel_w][channels] */
    const int32_t *bias;       /* [channels] */
    const int32_t *multiplier; /* [channels]: likewise */
    const int32_t *right;      /* [channels]: 1 to 46 */
} pillion_depthwise_conv2d_s16_params;
void pillion_depthwise_conv2d_s16(const pillion_depthwise_conv2d_s16_params *p, const int16_t *x, int16_t *y,
                                  void *scratch);

/* Transposed convolution of 16-bit operands: each input pixel arrives at input * stride + tap * dilation - pad. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c]: 15 bits of multiplier, above them the part of the bias beyond 32 bits */
    const int32_t *right;      /* [out_c]: 1 to 46 */
} pillion_transpose_conv2d_s16_params;
void pillion_transpose_conv2d_s16(const pillion_transpose_conv2d_s16_params *p, const int16_t *x, int16_t *y,
                                  void *scratch);

/* y = clamp((bias + sum(x * w)) * scale, low, high), in double precision, rounded once, half away from zero. */
typedef struct {
    int32_t rows, in_features, out_features, low, high;
    const int8_t *weights; /* [out_features][in_features] */
    const int64_t *bias;   /* [out_features] */
    const double *scale;   /* [out_features] */
} pillion_linear_tflite_s16_params;
void pillion_linear_tflite_s16(const pillion_linear_tflite_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y = clamp(requantize(a + b_sign * b), low, high), with both operands in a common scale first; b_sign is 1 or -1. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_multiplier, a_shift, b_multiplier, b_shift, b_sign, out_multiplier, out_shift, low, high;
} pillion_add_s16_params;
void pillion_add_s16(const pillion_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch);

/* y = clamp(requantize(a * b), low, high). */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t multiplier, shift, low, high;
} pillion_mul_s16_params;
void pillion_mul_s16(const pillion_mul_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch);

/* The smaller or the larger one of a and b. */
typedef struct {
    PILLION_BROADCAST_FIELDS
} pillion_minimum_s16_params;
typedef pillion_minimum_s16_params pillion_maximum_s16_params;
void pillion_minimum_s16(const pillion_minimum_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                         void *scratch);
void pillion_maximum_s16(const pillion_maximum_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                         void *scratch);

/* y = requantize(x - in_zp) + out_zp, between 8 and 16 bits, or 16 and 16. */
typedef struct {
    int32_t count, in_zp, out_zp, multiplier, shift;
} pillion_requantize_s16_params;
typedef pillion_requantize_s16_params pillion_requantize_s16_s8_params;
typedef pillion_requantize_s16_params pillion_requantize_s8_s16_params;
typedef pillion_requantize_s16_params pillion_requantize_s16_s32_params; /* out_zp is 0 */
void pillion_requantize_s16(const pillion_requantize_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_requantize_s16_s8(const pillion_requantize_s16_s8_params *p, const int16_t *x, int8_t *y, void *scratch);
void pillion_requantize_s8_s16(const pillion_requantize_s8_s16_params *p, const int8_t *x, int16_t *y, void *scratch);
void pillion_requantize_s16_s32(const pillion_requantize_s16_s32_params *p, const int16_t *x, int32_t *y, void *scratch);

/* y = requantize(x), with a multiplier and a sign of their own where x is negative. */
typedef struct {
    int32_t count, multiplier, shift, negative_multiplier, negative_shift, negative_sign;
} pillion_leaky_relu_s16_params;
void pillion_leaky_relu_s16(const pillion_leaky_relu_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* sigmoid(x) or tanh(x) in steps of 2^-15, by a table of sigmoid with an entry for every 2^9 or 2^8 steps. */
typedef struct {
    int32_t count, factor, right, is_tanh;
    const uint16_t *sigmoids; /* [256] */
} pillion_sigmoid_s16_params;
void pillion_sigmoid_s16(const pillion_sigmoid_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* A function of one number: entries for -32768, -32640, ... 32768, and lines between them, rounded half up. */
typedef struct {
    int32_t count;
    const int16_t *table; /* [513] */
} pillion_table_s16_params;
void pillion_table_s16(const pillion_table_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y = sqrt(x * scale) / step, in float32, truncated and at most 32767; 0 where x is negative. */
typedef struct {
    int32_t count;
    float scale, step;
} pillion_sqrt_s16_params;
void pillion_sqrt_s16(const pillion_sqrt_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The largest value or the mean of each window inside the image; means are rounded half away from zero. */
typedef struct {
    int32_t batch, in_h, in_w, channels, out_h, out_w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, low, high;
} pillion_pool_s16_params;
typedef pillion_pool_s16_params pillion_max_pool2d_s16_params;
typedef pillion_pool_s16_params pillion_avg_pool2d_s16_params;
void pillion_max_pool2d_s16(const pillion_max_pool2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_avg_pool2d_s16(const pillion_avg_pool2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y[m][n] = clamp(sum_k(a[m][k] * b[k][n]) * multiplier / 2^right, low, high) for each batch, rounded once, half up. */
typedef struct {
    int32_t batch, rows, depth, columns;
    int32_t a_row_step, a_depth_step, b_depth_step, b_column_step;
    int32_t low, high, multiplier, right;
} pillion_batch_matmul_s16_params;
void pillion_batch_matmul_s16(const pillion_batch_matmul_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                              void *scratch);

/* Matrix products of 16 bits by rows of two operands, the form of kernels with vectors. */
typedef struct {
    int32_t batch, depth;
    int32_t held, held_step, held_element_step, moving, moving_step;
    int32_t y_held_step, y_moving_step;
    int32_t low, high, multiplier, right;
} pillion_held_matmul_s16_params;

/* The shares of rows, in steps of 2^-15, by tables of exp on [-10, 0] and of 1 / (1 + x) on [0, 1]. */
typedef struct {
    int32_t rows, count, multiplier, shift;
    const int16_t *exponentials, *reciprocals; /* [513] */
} pillion_softmax_s16_params;
void pillion_softmax_s16(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* A function of one number by a table of each of its signs: entries for 0 to 63, and 64 for each octave of larger
 * magnitudes, with lines between them, rounded half up. y may be x. */
enum { PILLION_OCTAVE = 64, PILLION_SIDE = 641 };
typedef struct {
    int32_t count;
    const int16_t *table; /* [1282]: of 0 to -32768, then of 0 to 32768 */
} pillion_octave_lut_s16_params;
void pillion_octave_lut_s16(const pillion_octave_lut_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y = whether the relation (as in choosing.h) holds of (a - a_zp) * a_multiplier and the same of b. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t relation, a_zp, a_multiplier, b_zp, b_multiplier;
} pillion_compare_s16_params;
void pillion_compare_s16(const pillion_compare_s16_params *p, const int16_t *a, const int16_t *b, int8_t *y, void *scratch);

/* The places of extrema, the largest elements, and the boxes to keep, of 16 bits: as those of 8 bits in choosing.h. */
typedef pillion_arg_max_s8_params pillion_arg_max_s16_params;
typedef pillion_arg_max_s8_params pillion_arg_min_s16_params;
typedef pillion_top_values_s8_params pillion_top_values_s16_params;
typedef pillion_top_values_s8_params pillion_top_places_s16_params;
typedef pillion_non_max_suppression_s8_params pillion_non_max_suppression_s16_params;
void pillion_arg_max_s16(const pillion_arg_max_s16_params *p, const int16_t *x, int32_t *y, void *scratch);
void pillion_arg_min_s16(const pillion_arg_min_s16_params *p, const int16_t *x, int32_t *y, void *scratch);
void pillion_top_values_s16(const pillion_top_values_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_top_places_s16(const pillion_top_places_s16_params *p, const int16_t *x, int32_t *y, void *scratch);
void pillion_non_max_suppression_s16(const pillion_non_max_suppression_s16_params *p, const int16_t *boxes, const int16_t *scores,
                                     int32_t *y, void *scratch);

#endif
