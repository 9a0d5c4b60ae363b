/* SPDX-License-Identifier: Apache-2.0
 * The kernels of Pillion. Every kernel has one shape of signature:
 *
 *     void pillion_NAME(const pillion_NAME_params *p, const IN *x ..., OUT *y ..., void *scratch);
 *
 * The structs are declared in these headers and nowhere else: the compiler reads them. `params` holds all that it knows: shapes, zero points, bounds and pointers to constants in flash, packed in
 * the order in which this kernel reads them. `scratch` is as large as the compiler was told (NULL where it is 0).
 * Images are NHWC. Shapes are checked by the compiler; kernels check nothing. No malloc, no globals, no stdio. */
#ifndef PILLION_KERNELS_H
#define PILLION_KERNELS_H

#include <stdint.h>

#include "pillion/choosing.h"
#include "pillion/layers16.h"
#include "pillion/layers4.h"
#include "pillion/norms.h"
#include "pillion/recurrent.h"
#include "pillion/signal.h"

/* Convolution: y = clamp(requantize(bias + sum((x - in_zp) * w)) + out_zp, low, high); outside the image x is in_zp.
 * The inputs of a pixel, K = kernel_h * kernel_w * in_c / groups, are numbered in this order; weights and bias are packed
 * as dot.h wants them. `pointwise` says that windows are single pixels inside the image, of a multiple of 4 channels, in
 * one group; otherwise scratch has K bytes, rounded up to a multiple of 4. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups, pointwise;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [groups][K / 4][out_c / groups][4] */
    const int32_t *bias;       /* [out_c] - (in_zp + 128) * sum(w) */
    const int32_t *multiplier; /* [out_c] */
    const int32_t *shift;      /* [out_c]: positive is a left shift */
} pillion_conv2d_s8_params;
void pillion_conv2d_s8(const pillion_conv2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution of each channel on its own. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
    int32_t in_zp, out_zp, low, high;
    const int8_t *weights;     /* [kernel_h][kernel_w][channels] */
    const int32_t *bias;       /* [channels] */
    const int32_t *multiplier; /* [channels] */
    const int32_t *shift;      /* [channels] */
} pillion_depthwise_conv2d_s8_params;
void pillion_depthwise_conv2d_s8(const pillion_depthwise_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch);

/* y[row][n] = clamp(requantize(bias[n] + sum_k((x[row][k] - in_zp) * w[n][k])) + out_zp, low, high), packed as dot.h wants
 * it. If in_features is no multiple of 4, scratch has as many bytes, rounded up to one. */
typedef struct {
    int32_t rows, in_features, out_features;
    int32_t out_zp, low, high;
    const int8_t *weights;     /* [in_features / 4][out_features][4] */
    const int32_t *bias;       /* [out_features] - (in_zp + 128) * sum(w) */
    const int32_t *multiplier; /* [out_features] */
    const int32_t *shift;      /* [out_features] */
} pillion_linear_s8_params;
void pillion_linear_s8(const pillion_linear_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected, as linear_s8 but for the scaling: the sum is scaled in double precision and rounded once, half away from zero. */
typedef struct {
    int32_t rows, in_features, out_features;
    int32_t out_zp, low, high;
    const int8_t *weights; /* [in_features / 4][out_features][4] */
    const int32_t *bias;   /* [out_features] - (in_zp + 128) * sum(w) */
    const double *scale;   /* [out_features] */
} pillion_linear_tflite_s8_params;
void pillion_linear_tflite_s8(const pillion_linear_tflite_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

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

/* out_h rows of one image, from the one with the number `first` on; `rows` has those of the whole result, x begins with the first row that is
 * read. */
typedef pillion_resize_nearest_s8_params pillion_resize_nearest_rows_s8_params;
void pillion_resize_nearest_rows_s8(const pillion_resize_nearest_rows_s8_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                    void *scratch);

/* Two rows and two columns of the image, and how many of 1024 parts come from the second one. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    const int32_t *rows;    /* [out_h][3] */
    const int32_t *columns; /* [out_w][3] */
} pillion_resize_bilinear_s8_params;
void pillion_resize_bilinear_s8(const pillion_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_resize_bilinear_s8_params pillion_resize_bilinear_s16_params;
void pillion_resize_bilinear_s16(const pillion_resize_bilinear_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Some rows of the result, from the one with the number `first` on. Row n lies `start` + n * `step` parts of 1024 behind the first one
 * of the image, whose last one has the number `last`; x begins with the first row that is read. */
typedef struct {
    int32_t in_w, out_h, out_w, channels, step, start, last;
    const int32_t *columns; /* [out_w][3] */
} pillion_resize_bilinear_rows_s8_params;
void pillion_resize_bilinear_rows_s8(const pillion_resize_bilinear_rows_s8_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                     void *scratch);
typedef pillion_resize_bilinear_rows_s8_params pillion_resize_bilinear_rows_s16_params;
void pillion_resize_bilinear_rows_s16(const pillion_resize_bilinear_rows_s16_params *p, const int16_t *x, uint32_t first,
                                      int16_t *y, void *scratch);

/* Two rows and two columns of the image, and the shares of both. Pixels side by side that lie between the same two columns are a
 * run. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    const int32_t *rows;     /* [out_h][2] */
    const float *row_shares; /* [out_h][2] */
    const int32_t *runs;     /* of a row: two columns, and how many pixels; out_w pixels in all */
    const float *shares;     /* [out_w][2] */
} pillion_resize_bilinear_float_s8_params;
void pillion_resize_bilinear_float_s8(const pillion_resize_bilinear_float_s8_params *p, const int8_t *x, int8_t *y,
                                      void *scratch);

/* out_h rows of one image, from the one with the number `first` on; `rows` and `row_shares` have those of the whole result, x begins with the
 * first row that is read. */
typedef pillion_resize_bilinear_float_s8_params pillion_resize_bilinear_float_rows_s8_params;
void pillion_resize_bilinear_float_rows_s8(const pillion_resize_bilinear_float_rows_s8_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                           void *scratch);

/* x as [outer][slopes][inner]: negative elements are multiplied by their slope. */
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
typedef pillion_div_s8_params pillion_div_s16_params;
void pillion_div_s16(const pillion_div_s16_params *p, const int16_t *a, const int16_t *b, int16_t *y, void *scratch);

/* Quotients as div_s8, in fixed point: a number is normalized to 1 to 2 for its reciprocal. */
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
#define PILLION_REDUCTION_FIELDS                    \
    int32_t results, kept_axes;                     \
    const int32_t *kept_extent; /* [kept_axes] */   \
    const int32_t *kept_step;   /* [kept_axes] */   \
    int32_t count, axes;                            \
    const int32_t *extent; /* [axes] */             \
    const int32_t *step;   /* [axes] */

/* The largest element. */
typedef struct {
    PILLION_REDUCTION_FIELDS
} pillion_reduce_max_s8_params;
void pillion_reduce_max_s8(const pillion_reduce_max_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_max_s8_params pillion_reduce_max_s16_params;
void pillion_reduce_max_s16(const pillion_reduce_max_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The smallest element. */
typedef pillion_reduce_max_s8_params pillion_reduce_min_s8_params;
void pillion_reduce_min_s8(const pillion_reduce_min_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_max_s8_params pillion_reduce_min_s16_params;
void pillion_reduce_min_s16(const pillion_reduce_min_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The extremum of x[][inner] that arrives a few rows at a time: each call compares `reduced` rows of `inner` elements with the scratch memory.
 * The first call initializes it, the last one copies it to y. */
typedef struct {
    int32_t reduced, inner, is_first, is_last;
} pillion_reduce_max_rows_s8_params;
void pillion_reduce_max_rows_s8(const pillion_reduce_max_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_max_rows_s8_params pillion_reduce_min_rows_s8_params;
void pillion_reduce_min_rows_s8(const pillion_reduce_min_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = saturate(requantize(sum(x - in_zp)) + out_zp) */
typedef struct {
    PILLION_REDUCTION_FIELDS
    int32_t in_zp, out_zp, multiplier, shift;
} pillion_reduce_sum_s8_params;
void pillion_reduce_sum_s8(const pillion_reduce_sum_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Sums, scaled in double precision and rounded once. */
typedef struct {
    PILLION_REDUCTION_FIELDS
    int32_t in_zp, out_zp;
    const double *ratio; /* [1] */
} pillion_reduce_sum_tflite_s8_params;
void pillion_reduce_sum_tflite_s8(const pillion_reduce_sum_tflite_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_sum_tflite_s8_params pillion_reduce_sum_tflite_s16_params;
void pillion_reduce_sum_tflite_s16(const pillion_reduce_sum_tflite_s16_params *p, const int16_t *x, int16_t *y,
                                   void *scratch);

/* Sums, multiplied in 64 bits and shifted to the right by `right` (1 to 62), rounded once, half up. */
typedef struct {
    PILLION_REDUCTION_FIELDS
    int32_t in_zp, out_zp, multiplier, right;
} pillion_reduce_sum_once_s8_params;
void pillion_reduce_sum_once_s8(const pillion_reduce_sum_once_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Both for x[][inner] that arrives a few rows at a time: each call adds `reduced` rows of `inner` elements to the sums in the scratch memory.
 * The first call initializes them, the last one subtracts `offset` and scales them. */
typedef struct {
    int32_t reduced, inner, is_first, is_last, offset, out_zp;
    const double *ratio; /* [1] */
} pillion_reduce_sum_rows_tflite_s8_params;
void pillion_reduce_sum_rows_tflite_s8(const pillion_reduce_sum_rows_tflite_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef struct {
    int32_t reduced, inner, is_first, is_last, offset, out_zp, multiplier, right;
} pillion_reduce_sum_rows_once_s8_params;
void pillion_reduce_sum_rows_once_s8(const pillion_reduce_sum_rows_once_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = clamp(requantize(a ± b) + out_zp, low, high), with both operands brought to a common scale first; b_sign is 1 or
 * -1. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_zp, a_multiplier, a_shift, b_zp, b_multiplier, b_shift, b_sign;
    int32_t out_multiplier, out_shift, out_zp, low, high;
} pillion_add_s8_params;
void pillion_add_s8(const pillion_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* y = clamp((a * a_multiplier + b * b_multiplier + offset) >> places, low, high); elements are of 1 or 2 bytes. y may be
 * an operand of the same element type. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_bytes, b_bytes, y_bytes, a_multiplier, b_multiplier, offset_high, offset_low, places, low, high;
} pillion_wide_add_params;
void pillion_wide_add(const pillion_wide_add_params *p, const void *a, const void *b, void *y, void *scratch);

/* y = clamp((((a - a_zp) * multiplier * ((b - b_zp) << left) + 2^31) >> 32) + out_zp, low, high); both factors have 32 bits.
 * Elements are of 1 or 2 bytes. y may be an operand of the same element type. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_bytes, b_bytes, y_bytes, a_zp, b_zp, multiplier, left, out_zp, low, high;
} pillion_wide_mul_params;
void pillion_wide_mul(const pillion_wide_mul_params *p, const void *a, const void *b, void *y, void *scratch);

/* A function of one number of 16 bits: entries for -32768, -32512, … 32768, and lines between them, rounded half up. y may be x. */
typedef struct {
    int32_t count;
    const int16_t *table; /* [257] */
} pillion_wide_lut_params;
void pillion_wide_lut(const pillion_wide_lut_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y = clamp(requantize((a - b)²) + out_zp, low, high), with both operands brought to a common scale first. */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_zp, a_multiplier, a_shift, b_zp, b_multiplier, b_shift;
    int32_t out_multiplier, out_shift, out_zp, low, high;
} pillion_squared_difference_s8_params;
void pillion_squared_difference_s8(const pillion_squared_difference_s8_params *p, const int8_t *a, const int8_t *b,
                                   int8_t *y, void *scratch);

/* y = first + step * n, saturated, where n of 255 ascending thresholds are less than (a - a_zp)² a_factor + (b - b_zp)² b_factor. */
typedef struct {
    int32_t count, a_zp, b_zp, a_factor, b_factor, first, step;
    const int32_t *thresholds; /* [255] */
} pillion_magnitude_s8_params;
void pillion_magnitude_s8(const pillion_magnitude_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y,
                          void *scratch);

/* y = log2(max(mel + offset, floor)) * slope + intercept, where mel are weighted sums of the spectrum of windowed frames: of
 * magnitudes if power is 1, of their squares if it is 2. Mantissas and exponents are in units of a sum; the last 64 bits of a result are factor * log2 + constant. y is int8 or int16.
 * scratch has 8 * points bytes. */
typedef struct {
    int32_t batch, samples, frames, count, hop, points, bands, y_bytes;
    int32_t power, most_shifted, offset, offset_exponent, floor, floor_exponent, factor, constant_high, constant_low, low, high;
    const int16_t *window;     /* [count], rounded up to a multiple of 2 */
    const int32_t *twiddles;   /* cosines in lower, sines in upper halves: [stage][points / 4][3], then the split's */
    const uint16_t *weights;   /* of all bands */
    const int16_t *spans;      /* [bands][2]: the first bin, and the number of bins */
    const int32_t *logarithms; /* [33] */
    const int32_t *roots;      /* [193], if power is 1 */
} pillion_log_mel_params;
void pillion_log_mel(const pillion_log_mel_params *p, const int16_t *x, void *y, void *scratch);

/* Spectra of windowed frames: magnitudes if power is 1, their squares if it is 2, or pairs of real and imaginary parts if it is
 * 0, times multiplier / 2^(32 + right); right may be negative. y is int8 or int16. scratch has 8 * points bytes. */
typedef struct {
    int32_t batch, samples, frames, count, hop, points, y_bytes;
    int32_t power, most_shifted, multiplier, right, out_zp, low, high;
    const int16_t *window;   /* [count], rounded up to a multiple of 2 */
    const int32_t *twiddles; /* as in pillion_log_mel */
    const int32_t *roots;    /* [193], if power is 1 */
} pillion_stft_params;
void pillion_stft(const pillion_stft_params *p, const int16_t *x, void *y, void *scratch);

/* Sections of second order, of signals [signals][samples] with their states [signals][8 * sections + 4]: y has both, one
 * behind the other. Definition: ops/biquads.py. */
typedef struct {
    int32_t signals, samples, sections, fraction; /* fraction bits between sections */
    const int32_t *coefficients; /* [sections][7]: b0, b1, b2, -a1, -a2 and the factors of the last two remainders */
} pillion_biquads_s16_params;
void pillion_biquads_s16(const pillion_biquads_s16_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch);

/* Statistics of windows [windows][samples]: 0 deviation, 1 peak, 2 crest factor, 3 kurtosis. Definition: ops/window_statistic.py. */
typedef struct {
    int32_t windows, samples, statistic, multiplier, shift, out_zp, low, high;
} pillion_window_statistic_s16_params;
void pillion_window_statistic_s16(const pillion_window_statistic_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_window_statistic_s16_params pillion_window_statistic_s8_params;
void pillion_window_statistic_s8(const pillion_window_statistic_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = clamp(requantize((a - a_zp) * (b - b_zp)) + out_zp, low, high). */
typedef struct {
    PILLION_BROADCAST_FIELDS
    int32_t a_zp, b_zp, multiplier, shift, out_zp, low, high;
} pillion_mul_s8_params;
void pillion_mul_s8(const pillion_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* The smaller of a and b. */
typedef struct {
    PILLION_BROADCAST_FIELDS
} pillion_minimum_s8_params;
void pillion_minimum_s8(const pillion_minimum_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* The larger of a and b. */
typedef pillion_minimum_s8_params pillion_maximum_s8_params;
void pillion_maximum_s8(const pillion_maximum_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* Any function of one int8: y = table[x + 128]. */
typedef struct {
    int32_t count;
    const int8_t *table; /* [256] */
} pillion_lut_s8_params;
void pillion_lut_s8(const pillion_lut_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = clamp(x, low, high) */
typedef struct {
    int32_t count, low, high;
} pillion_clamp_s8_params;
typedef pillion_clamp_s8_params pillion_clamp_s16_params;
void pillion_clamp_s16(const pillion_clamp_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_clamp_s8(const pillion_clamp_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Pooling; windows exclude pixels outside the image. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, low, high;
} pillion_pool_s8_params;

/* The largest value of each window. */
typedef pillion_pool_s8_params pillion_max_pool2d_s8_params;
void pillion_max_pool2d_s8(const pillion_max_pool2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The mean of the integers of each window, rounded half away from zero. */
typedef pillion_pool_s8_params pillion_avg_pool2d_s8_params;
void pillion_avg_pool2d_s8(const pillion_avg_pool2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_pool_s8_params pillion_avg_pool2d_up_s8_params; /* halves are rounded up */
void pillion_avg_pool2d_up_s8(const pillion_avg_pool2d_up_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* y = clamp(requantize(sum(x) - offset) + out_zp, -128, 127): rows of `count` neighbouring means. The sum goes over
 * `steps` elements, `step` from one to the next, at each of `reduced` places. From row to row and from place to place one
 * walks along axes (see walk.h). */
typedef struct {
    int32_t rows, count, axes;
    const int32_t *extent, *row_step; /* [axes] */
    int32_t steps, step, reduced, reduced_axes;
    const int32_t *reduced_extent, *reduced_step; /* [reduced_axes] */
    int32_t offset, multiplier, shift, out_zp;
} pillion_mean_s8_params;
typedef pillion_mean_s8_params pillion_mean_s16_params; /* -32768, 32767 */
void pillion_mean_s16(const pillion_mean_s16_params *p, const int16_t *x, int16_t *y, void *scratch);
void pillion_mean_s8(const pillion_mean_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The mean or sum of x[][inner] that arrives a few rows at a time: each call adds `reduced` rows of `inner` elements to
 * the sums in the scratch memory. The first call initializes them, the last one scales them to results. */
typedef struct {
    int32_t reduced, inner, is_first, is_last, offset, multiplier, shift, out_zp;
} pillion_mean_rows_s8_params;
void pillion_mean_rows_s8(const pillion_mean_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The mean of x[window][inner] that moves by `entering` rows from run to run. The scratch memory persists: before a run it holds the sums of all
 * but the newest `entering` rows, after it the sums of all but the oldest. */
typedef struct {
    int32_t inner, entering, window, offset, multiplier, shift, out_zp;
} pillion_window_mean_s8_params;
void pillion_window_mean_s8(const pillion_window_mean_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The mean of such a window as an average pool divides: half away from zero. */
typedef struct {
    int32_t inner, entering, window, low, high;
} pillion_window_pool_s8_params;
void pillion_window_pool_s8(const pillion_window_pool_s8_params *p, const int8_t *x, int8_t *y, void *scratch);

/* float32 to int8: x times the reciprocal of the scale, ties to even, saturating; not a number becomes out_zp. */
typedef struct {
    int32_t count, out_zp;
    float reciprocal;
} pillion_quantize_s8_params;
typedef pillion_quantize_s8_params pillion_quantize_s16_params;
void pillion_quantize_s16(const pillion_quantize_s16_params *p, const float *x, int16_t *y, void *scratch);
void pillion_quantize_s8(const pillion_quantize_s8_params *p, const float *x, int8_t *y, void *scratch);

/* float32 to int8: x divided by the scale, ties away from zero, saturating; not a number becomes out_zp. */
typedef struct {
    int32_t count, out_zp;
    float scale;
} pillion_quantize_tflite_s8_params;
void pillion_quantize_tflite_s8(const pillion_quantize_tflite_s8_params *p, const float *x, int8_t *y, void *scratch);
typedef pillion_quantize_tflite_s8_params pillion_quantize_tflite_s16_params;
void pillion_quantize_tflite_s16(const pillion_quantize_tflite_s16_params *p, const float *x, int16_t *y, void *scratch);

/* int8 to float32: (x - in_zp) * scale */
typedef struct {
    int32_t count, in_zp;
    float scale;
} pillion_dequantize_s8_params;
void pillion_dequantize_s8(const pillion_dequantize_s8_params *p, const int8_t *x, float *y, void *scratch);
/* Of numbers of 16 bits. */
typedef pillion_dequantize_s8_params pillion_dequantize_s16_params;
void pillion_dequantize_s16(const pillion_dequantize_s16_params *p, const int16_t *x, float *y, void *scratch);

/* Copies rows of `count` elements of 1, 2 or 4 bytes; axes lead from row to row (see walk.h). Steps and offsets
 * are in bytes. Data that are contiguous on both sides are elements of 1 byte. */
typedef struct {
    int32_t rows, count, element_bytes, x_step, y_step, x_offset, y_offset, axes;
    const int32_t *extent, *x_row_step, *y_row_step; /* [axes] */
} pillion_strided_copy_params;
void pillion_strided_copy(const pillion_strided_copy_params *p, const void *x, void *y, void *scratch);

/* Writes the bytes of one element `count` times. */
typedef struct {
    int32_t count, element_bytes;
    const uint8_t *element; /* [element_bytes] */
} pillion_fill_params;
void pillion_fill(const pillion_fill_params *p, void *y, void *scratch);

/* x as [batch][outer][size][inner_bytes], numbers as [batch][count]: slices of the third axis by their numbers, which are
 * clamped to it. */
typedef struct {
    int32_t batch, outer, size, count, inner_bytes;
} pillion_gather_params;
void pillion_gather(const pillion_gather_params *p, const void *x, const int32_t *numbers, void *y, void *scratch);

/* Rows of a table [rows][elements] by their numbers [bags][words], which are clamped to it: y = (sum of row * its multiplier + offset) >>
 * places, saturated. */
#define PILLION_EMBEDDING_BAG_FIELDS                                      \
    int32_t bags, words, rows, elements, places, offset_high, offset_low; \
    const int32_t *multipliers; /* [rows] */
typedef struct {
    PILLION_EMBEDDING_BAG_FIELDS
} pillion_embedding_bag_s8_params;
void pillion_embedding_bag_s8(const pillion_embedding_bag_s8_params *p, const int8_t *table, const int32_t *numbers, int8_t *y,
                    void *scratch);

/* Rows of a table of four bits, two numbers in a byte, the first in the low half. Each row begins with a byte of its own. */
typedef struct {
    PILLION_EMBEDDING_BAG_FIELDS
    const int8_t *table; /* [rows][elements] */
} pillion_embedding_bag_s4_params;
void pillion_embedding_bag_s4(const pillion_embedding_bag_s4_params *p, const int32_t *numbers, int8_t *y, void *scratch);

/* Whole numbers in another element type: 0 is bool, 1 uint8, 2 int32, 3 float32, which only y may be. */
typedef struct {
    int32_t count, from, to;
} pillion_cast_params;
void pillion_cast(const pillion_cast_params *p, const void *x, void *y, void *scratch);

#endif
