/* SPDX-License-Identifier: Apache-2.0
 * Kernels for the SIMD instructions of Armv7E-M and Armv8-M Mainline (Cortex-M4, -M7, -M33): two 16-bit products to an
 * instruction. Their constants are packed by pillion/emitters/c/dsp/ in the order in which the loops read them; what a
 * variant needs to be right is checked there, at compile time. Scratch is aligned to 4 bytes. The answers are those of
 * the portable kernels, bit for bit. */
#ifndef PILLION_DSP_H
#define PILLION_DSP_H

#include <stdint.h>

#include "pillion/kernels.h"
#include "pillion/optimized.h"

/* Elsewhere the files of kernels/dsp are empty, and the compiler chooses other kernels. */
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_FEATURE_MVE)
#define PILLION_HAS_DSP 1
#else
#define PILLION_HAS_DSP 0
#endif

/* The fields of pillion_dsp_dot, in kernels/dsp/dot.h. */
#define PILLION_DOT_FIELDS     \
    const int32_t *stream;     \
    const uint16_t *runs;      \
    const uint16_t *repeats;   \
    int32_t run_count, repeat_count, lone, steps, out_c, rectified, part_rounds;
/* The image and the window of a convolution. */
#define PILLION_WINDOW_FIELDS                         \
    int32_t batch, in_h, in_w, in_c, out_h, out_w;    \
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
#define PILLION_CONV2D_FIELDS            \
    PILLION_DOT_FIELDS                   \
    PILLION_WINDOW_FIELDS                \
    int32_t dilation_h, dilation_w, in_zp, low, high;

/* Convolution with a kernel of 1x1, stride 1, no padding; in_c is a multiple of 4. */
typedef struct {
    PILLION_DOT_FIELDS
    int32_t pixels; /* of all images */
    int32_t in_c, low, high;
} pillion_conv2d_1x1_s8_dsp_params;
void pillion_conv2d_1x1_s8_dsp(const pillion_conv2d_1x1_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution with any kernel, stride, dilation and padding; in_c is a multiple of 4. */
typedef struct {
    PILLION_CONV2D_FIELDS
} pillion_conv2d_s8_dsp_params;
void pillion_conv2d_s8_dsp(const pillion_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution without dilation; in_c is a multiple of 4. Each row of the image is widened once, into a ring of so many rows. */
typedef struct {
    PILLION_DOT_FIELDS
    PILLION_WINDOW_FIELDS
    int32_t in_zp, low, high, ring_rows;
} pillion_conv2d_ring_s8_dsp_params;
void pillion_conv2d_ring_s8_dsp(const pillion_conv2d_ring_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution with a kernel of 3x3 without strides and dilation, any padding, by Winograd's way; in_c is a multiple of 4, out_c of 2. Weights
 * are prepared, in words of two inputs [pairs of channels][16 places][in_c / 2][2]; for the constants see kernels/dsp/winograd.h. */
typedef struct {
    const int32_t *weights, *constants;
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, pad_top, pad_left, in_zp, low, high;
} pillion_conv2d_winograd_s8_dsp_params;
void pillion_conv2d_winograd_s8_dsp(const pillion_conv2d_winograd_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution with any kernel, stride, dilation and padding, and any number of input channels: first layers, with one or three. */
typedef pillion_conv2d_s8_dsp_params pillion_conv2d_thin_s8_dsp_params;
void pillion_conv2d_thin_s8_dsp(const pillion_conv2d_thin_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* The four convolutions above with weights of four bits, in a stream of its own (kernels/dsp/dot.h). */
typedef pillion_conv2d_1x1_s8_dsp_params pillion_conv2d_1x1_s4_dsp_params;
typedef pillion_conv2d_s8_dsp_params pillion_conv2d_s4_dsp_params, pillion_conv2d_thin_s4_dsp_params;
typedef pillion_conv2d_ring_s8_dsp_params pillion_conv2d_ring_s4_dsp_params;
void pillion_conv2d_1x1_s4_dsp(const pillion_conv2d_1x1_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_s4_dsp(const pillion_conv2d_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_thin_s4_dsp(const pillion_conv2d_thin_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
void pillion_conv2d_ring_s4_dsp(const pillion_conv2d_ring_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution of 16-bit inputs without zero points, with any kernel, stride, dilation and padding. May read 2 bytes beyond x. Scratch: inputs
 * of five windows, twice where one leaves the image or has gaps. */
#define PILLION_CONV2D_16_FIELDS                                                                    \
    PILLION_WINDOW_FIELDS                                                                           \
    int32_t dilation_h, dilation_w, out_c, low, high;                                               \
    int32_t steps;         /* inputs of a window, in fours; a kernel row is filled up to an even number */ \
    int32_t whole_rows;    /* not 0: columns are not dilated */                                     \
    const int32_t *stream; /* [out_c] of bias, int8 weights[steps][4] in the order 0 2 1 3, factor: the ratio of scales * 2^32 */
typedef struct {
    PILLION_CONV2D_16_FIELDS
} pillion_conv2d_s16_dsp_params;
void pillion_conv2d_s16_dsp(const pillion_conv2d_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Convolution of 16-bit inputs with weights of four bits [steps][8], in bytes of inputs 4 0, 6 2, 5 1, 7 3; steps of eight inputs. Biases are 16 times as large. */
typedef pillion_conv2d_s16_dsp_params pillion_conv2d_s16_s4_dsp_params;
void pillion_conv2d_s16_s4_dsp(const pillion_conv2d_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Convolution of 16-bit inputs with weights of four bits that are unpacked: + 8, in bytes of inputs 0 4, 2 6, 1 5, 3 7; biases as they are. Scratch: the weights of a channel in 16
 * bits, some fives of windows (kernels/dsp/conv2d_unpacked_s16_s4_dsp.c), and five of them where one leaves the image or has gaps. */
typedef pillion_conv2d_s16_dsp_params pillion_conv2d_unpacked_s16_s4_dsp_params;
void pillion_conv2d_unpacked_s16_s4_dsp(const pillion_conv2d_unpacked_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Convolution of 16-bit inputs with int16 weights[steps][4] in their own order. */
typedef pillion_conv2d_s16_dsp_params pillion_conv2d_wide_s16_dsp_params;
void pillion_conv2d_wide_s16_dsp(const pillion_conv2d_wide_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* With a kernel of 3x3 without strides and dilation, any padding, by Winograd's way along rows: inputs lie within 2^15 numbers; in_c is a multiple of 4,
 * out_c of 2. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, pad_top, pad_left, low, high;
    int32_t center;        /* in both halves: what is added to sums of two inputs, so that they fit 16 bits */
    const int32_t *stream; /* of each two channels biases, int16 weights[4 places][3 rows][in_c / 2][2 channels][2], factors behind the last two places */
} pillion_conv2d_winograd_s16_dsp_params;
void pillion_conv2d_winograd_s16_dsp(const pillion_conv2d_winograd_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Fully connected, of one vector of inputs at a time. Scratch: a vector in fours of inputs. */
typedef struct {
    int32_t rows, in_features, out_features, steps, low, high;
    const int32_t *stream; /* of each four outputs sums, weights[steps][4] (kernels/dsp/linear_s16_dsp.c), factor[4]; filled up with zeros */
} pillion_linear_s16_dsp_params;
void pillion_linear_s16_dsp(const pillion_linear_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Fully connected, of 16-bit inputs with weights of four bits, in steps and a stream of its own (kernels/dsp/linear_s16_dsp.c). Scratch: a vector in eights. */
typedef pillion_linear_s16_dsp_params pillion_linear_s16_s4_dsp_params;
void pillion_linear_s16_s4_dsp(const pillion_linear_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_linear_s16_dsp_params pillion_linear_large_s16_s4_dsp_params; /* of sums up to 2^31 */
void pillion_linear_large_s16_s4_dsp(const pillion_linear_large_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* y = clamp(x, low, high) of 16 bits. y may be x. */
typedef pillion_clamp_s8_params pillion_clamp_s16_dsp_params;
void pillion_clamp_s16_dsp(const pillion_clamp_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* A function of one number of 16 bits, as pillion_wide_lut. y may be x. */
typedef pillion_wide_lut_params pillion_wide_lut_dsp_params;
void pillion_wide_lut_dsp(const pillion_wide_lut_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Depthwise convolution, any padding; output channel = input channel * (out_c / in_c) + m. y may be x where the image is
 * the only one and y is not larger. The loops take four outputs of a row together: where the height is better for that
 * than the width, the layer is transposed, which means that whatever is called h here is the image's w, and w its h. */
typedef struct {
    PILLION_WINDOW_FIELDS
    int32_t dilation_h, dilation_w, in_zp, low, high, out_c, rectified, transposed;
    int32_t band;             /* rows of outputs whose plane is in scratch */
    const int8_t *weights;    /* [out_c][kernel_h][kernel_w], and some bytes that are read but do not matter */
    const int32_t *constants; /* [out_c] of 2 * (bias - in_zp * sum(w)), 2 * round, one more where there is no right shift, multiplier */
} pillion_depthwise_s8_dsp_params;

/* The same of 16 bits; constants are [out_c] of bias, 1 or of rectified results -1, factor: the ratio of scales * 2^32. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_s16_dsp_params;
typedef pillion_depthwise_s16_dsp_params pillion_depthwise_3x3_s16_dsp_params;
void pillion_depthwise_3x3_s16_dsp(const pillion_depthwise_3x3_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);
typedef pillion_depthwise_s16_dsp_params pillion_depthwise_3x3_stride2_s16_dsp_params;
void pillion_depthwise_3x3_stride2_s16_dsp(const pillion_depthwise_3x3_stride2_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Any kernel without dilation_w, with stride_w 1 or 2. Rows of weights are filled up with zeros to parts of four or six. */
typedef pillion_depthwise_s16_dsp_params pillion_depthwise_any_s16_dsp_params;
void pillion_depthwise_any_s16_dsp(const pillion_depthwise_any_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* With a kernel of 3x3, stride 1. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_3x3_s8_dsp_params;
void pillion_depthwise_3x3_s8_dsp(const pillion_depthwise_3x3_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch);

/* 3x3, stride 2. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_3x3_stride2_s8_dsp_params;
void pillion_depthwise_3x3_stride2_s8_dsp(const pillion_depthwise_3x3_stride2_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                          void *scratch);

/* 5x5, stride 1. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_5x5_s8_dsp_params;
void pillion_depthwise_5x5_s8_dsp(const pillion_depthwise_5x5_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch);

/* 5x5, stride 2. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_5x5_stride2_s8_dsp_params;
void pillion_depthwise_5x5_stride2_s8_dsp(const pillion_depthwise_5x5_stride2_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                          void *scratch);

/* Any kernel, stride and dilation. Without dilation_w, and with stride_w 1 or 2, rows of weights are filled up as for
 * pillion_depthwise_any_s16_dsp. */
typedef pillion_depthwise_s8_dsp_params pillion_depthwise_any_s8_dsp_params;
void pillion_depthwise_any_s8_dsp(const pillion_depthwise_any_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch);

/* Depthwise convolution by any window, a pixel and four channels at a time, one filter for each. May read 3 elements beyond x. Of 16 bits, in_zp is 0. */
#define PILLION_DEPTHWISE_PIXELS_FIELDS               \
    int32_t batch, in_h, in_w, channels, out_h, out_w; \
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, in_zp, low, high;
typedef struct {
    PILLION_DEPTHWISE_PIXELS_FIELDS
    const int8_t *weights;  /* [channels / 4][kernel_h][kernel_w][4], filled up with zeros */
    const int32_t *numbers; /* [channels / 4] of bias[4], 2 * round[4], one more where there is no right shift, multiplier[4] */
} pillion_depthwise_pixels_s8_dsp_params;
void pillion_depthwise_pixels_s8_dsp(const pillion_depthwise_pixels_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef struct {
    PILLION_DEPTHWISE_PIXELS_FIELDS
    const int16_t *weights; /* as above */
    const int32_t *numbers; /* [channels / 4] of bias[4], factor[4] */
} pillion_depthwise_pixels_s16_dsp_params;
void pillion_depthwise_pixels_s16_dsp(const pillion_depthwise_pixels_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Fully connected; the stream is described in kernels/dsp/linear_s8_dsp.c. */
#define PILLION_LINEAR_FIELDS                                                                                        \
    const int32_t *stream;                                                                                           \
    const uint16_t *runs;    /* first channels of runs: groups of four channels, one after the other */              \
    const uint16_t *repeats; /* {from, to}: halfwords of the widened row, for inputs wanted twice */                 \
    int32_t run_count, repeat_count;                                                                                 \
    int32_t rest;        /* channels that are left, the last ones, at most three */                                  \
    int32_t steps;       /* inputs of a sum, in fours */                                                             \
    int32_t part_rounds; /* not 0: sums are set aside after so many rounds of eight steps */                         \
    int32_t rows, in_features, out_features, low, high;
typedef struct {
    PILLION_LINEAR_FIELDS
    int32_t rectified;   /* negative sums do not matter */
    int32_t rest_rights; /* right shifts of the channels that are left, a byte each, the first one in the low bits */
} pillion_linear_s8_dsp_params;
void pillion_linear_s8_dsp(const pillion_linear_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected, with weights of four bits, in a stream of its own (kernels/dsp/linear_s4_dsp.c). No input is wanted twice. */
typedef pillion_linear_s8_dsp_params pillion_linear_s4_dsp_params;
void pillion_linear_s4_dsp(const pillion_linear_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Convolution without padding that makes few pixels: a fully connected layer of so many rows, which are gathered first, into the scratch
 * memory behind what the layer needs. Steps are in bytes. */
typedef struct {
    PILLION_LINEAR_FIELDS
    int32_t rectified, rest_rights; /* as above */
    int32_t windows, window_row_step, row_windows, window_step; /* rows of windows, windows of each */
    int32_t kernel_rows, kernel_row_step, pieces, piece_step, piece_bytes;
    int32_t gathered; /* the bytes of the layer's own scratch */
} pillion_conv2d_lone_s8_dsp_params;
void pillion_conv2d_lone_s8_dsp(const pillion_conv2d_lone_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Fully connected; sums are rounded once, as LiteRT's are. */
typedef struct {
    PILLION_LINEAR_FIELDS
    const int32_t *once; /* [out_features] of multiplier, offset in two words, right shift (pillion/once.h) */
} pillion_linear_tflite_s8_dsp_params;
void pillion_linear_tflite_s8_dsp(const pillion_linear_tflite_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_linear_tflite_s8_dsp_params pillion_linear_tflite_s4_dsp_params; /* the stream is that of linear_s4 */
void pillion_linear_tflite_s4_dsp(const pillion_linear_tflite_s4_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Addition, subtraction: clamp((a * x1 + b * x2 + c) >> shift). x1 and y are rows of `count` bytes, x2 is one row. */
typedef struct {
    int32_t rows, count, a, b, c, shift, low, high;
} pillion_sum_s8_dsp_params;
void pillion_sum_s8_dsp(const pillion_sum_s8_dsp_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* Quotients: y = clamp(((a - a_zp) * factors[b] + 2^22 >> 23) + out_zp), by rows of `count` elements with a divisor for each, or one for all
 * (b_step 0). y may be an operand of its shape. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step, b_step;
    const int32_t *factors; /* [256], of b from 0 to 127, then from -128 on */
    int32_t a_zp, out_zp, low, high;
} pillion_div_s8_dsp_params;
void pillion_div_s8_dsp(const pillion_div_s8_dsp_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch);

/* Transposed convolution: of every stride_h rows of outputs the same one, in a call for each. A row is a row of a
 * convolution, the outputs between two columns of inputs being channels of one pixel. */
typedef struct {
    PILLION_CONV2D_FIELDS
    int32_t rows, y_offset, y_row, y_image; /* in numbers: the first row in y, and from row to row of the call */
    int32_t kept, room; /* of a row that is longer than those of y: the numbers that are copied from scratch[room] on; 0 of others */
} pillion_transpose_conv2d_s8_dsp_params;
void pillion_transpose_conv2d_s8_dsp(const pillion_transpose_conv2d_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                     void *scratch);
typedef struct {
    PILLION_CONV2D_16_FIELDS
    int32_t rows, y_offset, y_row, y_image, kept, room;
} pillion_transpose_conv2d_s16_dsp_params;
void pillion_transpose_conv2d_s16_dsp(const pillion_transpose_conv2d_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Extremes: y[outer][inner] are the largest, or the smallest, of x[outer][reduced][inner]. Between the tiles of
 * one op, the scratch memory holds the results so far. */
typedef struct {
    int32_t outer, reduced, inner, is_first, is_last;
} pillion_reduce_max_s8_dsp_params;
void pillion_reduce_max_s8_dsp(const pillion_reduce_max_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_reduce_max_s8_dsp_params pillion_reduce_min_s8_dsp_params;
void pillion_reduce_min_s8_dsp(const pillion_reduce_min_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Sums and means: y[outer][inner] = requantize(the sum of x[outer][reduced][inner] - in_zp) + out_zp; inner is 1, or 4
 * and more. round = (2 * out_zp + 1) << (right - 1). */
typedef struct {
    int32_t outer, reduced, inner, in_zp;
    int32_t multiplier, round, right;
} pillion_reduce_sum_s8_dsp_params;
void pillion_reduce_sum_s8_dsp(const pillion_reduce_sum_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Means of 16 bits: y[outer][inner] = requantize(the sum of x[outer][reduced][inner] - in_zp) + out_zp. */
typedef struct {
    int32_t outer, reduced, inner, in_zp, multiplier, right, out_zp;
} pillion_mean_s16_dsp_params;
void pillion_mean_s16_dsp(const pillion_mean_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The mean or sum of x[window][inner] that moves from run to run, as pillion_window_mean_s8, with sums less the zero points of the window;
 * inner is a multiple of 4, entering at most 255, round as above. */
typedef struct {
    int32_t inner, entering, window;
    int32_t multiplier, round, right;
} pillion_window_mean_s8_dsp_params;
void pillion_window_mean_s8_dsp(const pillion_window_mean_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Products of matrices. Each batch has `held` vectors of one operand, which are kept in scratch, and `moving` ones of the
 * other, of `depth` elements each; y has a result for every two. round = (2 * out_zp + 1) << (right - 1). */
typedef struct {
    int32_t batch, held, moving, depth;
    int32_t held_step, held_element_step, moving_step, moving_element_step; /* from vector to vector, and within them */
    int32_t y_held_step, y_moving_step;
    int32_t held_zp, moving_zp;
    int32_t multiplier, round, right, low, high;
} pillion_batch_matmul_s8_dsp_params;
void pillion_batch_matmul_s8_dsp(const pillion_batch_matmul_s8_dsp_params *p, const int8_t *held, const int8_t *moving,
                                 int8_t *y, void *scratch);

/* Products of matrices of 16 bits, as pillion_batch_matmul_s16, of held vectors with moving ones, whose elements lie together. May
 * read 6 bytes beyond the moving vectors. Scratch: three held vectors in fours. */
typedef pillion_held_matmul_s16_params pillion_batch_matmul_s16_dsp_params;
void pillion_batch_matmul_s16_dsp(const pillion_batch_matmul_s16_dsp_params *p, const int16_t *held, const int16_t *moving, int16_t *y,
                                  void *scratch);

/* Product: clamp(requantize((x1 - zp1) * (x2 - zp2)) + out_zp); rows as above. round = (2 * out_zp + 1) << (right - 1). */
typedef struct {
    int32_t rows, count, zp1, zp2, round, multiplier, right, low, high;
} pillion_mul_s8_dsp_params;
void pillion_mul_s8_dsp(const pillion_mul_s8_dsp_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch);

/* y = table[x as an unsigned number] */
typedef pillion_lut_s8_params pillion_lut_s8_dsp_params;
void pillion_lut_s8_dsp(const pillion_lut_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* float32 to int8: nearest integer of x * reciprocal, ties to even, plus out_zp. */
typedef pillion_quantize_s8_params pillion_quantize_s8_dsp_params;
void pillion_quantize_s8_dsp(const pillion_quantize_s8_dsp_params *p, const float *x, int8_t *y, void *scratch);
typedef pillion_quantize_s16_params pillion_quantize_s16_dsp_params;
void pillion_quantize_s16_dsp(const pillion_quantize_s16_dsp_params *p, const float *x, int16_t *y, void *scratch);

/* int8 to float32: (x - in_zp) * scale */
typedef pillion_dequantize_s8_params pillion_dequantize_s8_dsp_params;
void pillion_dequantize_s8_dsp(const pillion_dequantize_s8_dsp_params *p, const int8_t *x, float *y, void *scratch);
typedef pillion_dequantize_s16_params pillion_dequantize_s16_dsp_params;
void pillion_dequantize_s16_dsp(const pillion_dequantize_s16_dsp_params *p, const int16_t *x, float *y, void *scratch);

/* Pooling of the pixels of each window that are inside the image. */
/* The mean, half away from zero. A row of a window has at most 255 pixels. */
typedef pillion_pool_s8_params pillion_avg_pool2d_s8_dsp_params;
void pillion_avg_pool2d_s8_dsp(const pillion_avg_pool2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
/* The mean, half up. */
typedef pillion_pool_s8_params pillion_avg_pool2d_up_s8_dsp_params;
void pillion_avg_pool2d_up_s8_dsp(const pillion_avg_pool2d_up_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
/* The largest. */
typedef pillion_pool_s8_params pillion_max_pool2d_s8_dsp_params;
void pillion_max_pool2d_s8_dsp(const pillion_max_pool2d_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);

/* Norms, as pillion_normalize_s8. With several groups, scratch has 16 bytes for each channel. */
typedef pillion_normalize_s8_params pillion_normalize_s8_dsp_params;
void pillion_normalize_s8_dsp(const pillion_normalize_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
/* Of elements of 16 bits, with one group. */
typedef pillion_normalize_s8_params pillion_normalize_s16_dsp_params;
void pillion_normalize_s16_dsp(const pillion_normalize_s16_dsp_params *p, const int16_t *x, int8_t *y, void *scratch);
/* Of results of 16 bits, too. */
typedef pillion_normalize_s8_params pillion_normalize_s16_s16_dsp_params;
void pillion_normalize_s16_s16_dsp(const pillion_normalize_s16_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Filters in second-order sections, as pillion_biquads_s16. */
typedef pillion_biquads_s16_params pillion_biquads_s16_dsp_params;
void pillion_biquads_s16_dsp(const pillion_biquads_s16_dsp_params *p, const int16_t *x, const int16_t *past, int16_t *y, void *scratch);

/* A statistic of each window, as pillion_window_statistic_s16. */
typedef pillion_window_statistic_s16_params pillion_window_statistic_s16_dsp_params;
void pillion_window_statistic_s16_dsp(const pillion_window_statistic_s16_dsp_params *p, const int16_t *x, int16_t *y,
                                      void *scratch);

/* Log-mel spectra, as pillion_log_mel. */
typedef pillion_log_mel_params pillion_log_mel_dsp_params;
void pillion_log_mel_dsp(const pillion_log_mel_dsp_params *p, const int16_t *x, void *y, void *scratch);
/* Spectra of frames, as pillion_stft. */
typedef pillion_stft_params pillion_stft_dsp_params;
void pillion_stft_dsp(const pillion_stft_dsp_params *p, const int16_t *x, void *y, void *scratch);

/* y[n][column][row] = x[n][row][column] */
typedef struct {
    int32_t batch, rows, columns;
} pillion_transpose_s8_dsp_params;
void pillion_transpose_s8_dsp(const pillion_transpose_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch);
typedef pillion_transpose_s8_dsp_params pillion_transpose_s16_dsp_params;
void pillion_transpose_s16_dsp(const pillion_transpose_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch);

/* Conversions between 8 and 16 bits: (x * multiplier / 2^16 + constant) >> 15, where bytes are the upper halves of halfwords. */
typedef struct {
    int32_t count, multiplier, constant;
} pillion_requantize_s16_s8_dsp_params;
void pillion_requantize_s16_s8_dsp(const pillion_requantize_s16_s8_dsp_params *p, const int16_t *x, int8_t *y, void *scratch);
typedef pillion_requantize_s16_s8_dsp_params pillion_requantize_s8_s16_dsp_params;
void pillion_requantize_s8_s16_dsp(const pillion_requantize_s8_s16_dsp_params *p, const int8_t *x, int16_t *y, void *scratch);

/* Sums in 16 bits, as pillion_wide_add; from row to row operands move on by so many elements. a is the wider operand. Operands are
 * shifted to the left, so that what is left of a sum is in its upper word, which may be shifted to the right. y may be an operand of the same element type. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_bytes, b_bytes, y_bytes;
    int32_t a_multiplier, b_multiplier, offset_high, offset_low, left, right, low, high;
} pillion_wide_add_dsp_params;
void pillion_wide_add_dsp(const pillion_wide_add_dsp_params *p, const void *a, const void *b, void *y, void *scratch);
/* Sums of 16-bit tensors in the same steps: a + b, or a - b where the sign is -1. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t sign, low, high;
} pillion_add_unscaled_s16_dsp_params;
void pillion_add_unscaled_s16_dsp(const pillion_add_unscaled_s16_dsp_params *p, const int16_t *a, const int16_t *b, int16_t *y,
                                  void *scratch);

/* Products in 16 bits, as pillion_wide_mul; rows as in wide_add. a is the wider operand. y may be an operand of the same element type. */
typedef struct {
    int32_t rows, count, a_row_step, b_row_step;
    int32_t a_bytes, b_bytes, y_bytes;
    int32_t a_zp, b_zp, multiplier, left, out_zp, low, high;
} pillion_wide_mul_dsp_params;
void pillion_wide_mul_dsp(const pillion_wide_mul_dsp_params *p, const void *a, const void *b, void *y, void *scratch);

/* The halves of a step of an LSTM, as pillion_lstm_cell_s16 and pillion_lstm_output_s8. Scratch: the sums of all gates in 16 bits, in
 * whole groups, and inputs and outputs in 16 bits, in whole eights. */
#define PILLION_DSP_GATES_FIELDS                                                                     \
    int32_t batch, inputs, outputs, cells;                                                           \
    int32_t groups;                   /* of four cells */                                            \
    int32_t eights, recurrent_eights; /* of inputs, of outputs */                                    \
    const int32_t *stream, *recurrent_stream; /* [gates][groups], see kernels/dsp/gates.h */         \
    const int32_t *scalings; /* [2][gates] of multiplier, right shift, left shift: of inputs, then of outputs */
typedef struct {
    PILLION_DSP_GATES_FIELDS
    int32_t places, low, high;
} pillion_lstm_cell_s16_dsp_params;
void pillion_lstm_cell_s16_dsp(const pillion_lstm_cell_s16_dsp_params *p, const int8_t *x, const int8_t *h, const int16_t *c,
                               int16_t *y, void *scratch);
typedef struct {
    PILLION_DSP_GATES_FIELDS
    int32_t integer_bits;
    int32_t out_multiplier, out_shift, out_zp;
} pillion_lstm_output_s8_dsp_params;
void pillion_lstm_output_s8_dsp(const pillion_lstm_output_s8_dsp_params *p, const int8_t *x, const int8_t *h,
                                const int16_t *c, int8_t *y, void *scratch);

/* Memory of filters, as pillion_svdf_memory_s16. Scratch: inputs in 16 bits, in whole eights, and 2 bytes for each filter, in whole
 * fours. */
typedef struct {
    int32_t batch, inputs, filters, length;
    int32_t groups, eights;
    const int32_t *stream, *scalings; /* as above, of one gate */
} pillion_svdf_memory_s16_dsp_params;
void pillion_svdf_memory_s16_dsp(const pillion_svdf_memory_s16_dsp_params *p, const int8_t *x, const int16_t *memory,
                                 int16_t *y, void *scratch);

#endif
