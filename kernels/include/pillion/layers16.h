/* SPDX-License-Identifier: Apache-2.0
 * Layers and pools with 16-bit operands and results, both with the zero point 0. */
#ifndef PILLION_LAYERS16_H
#define PILLION_LAYERS16_H

#include <stdint.h>

/* y = clamp((bias + sum(x * w)) * multiplier / 2^right, low, high), rounded once, half up. The sums have 64 bits. */
typedef struct {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups, low, high;
    const int8_t *weights;     /* [out_c][kernel_h][kernel_w][in_c / groups] */
    const int32_t *bias;       /* [out_c] */
    const int32_t *multiplier; /* [out_c]: at most 15 bits */
    const int32_t *right;      /* [out_c]: 1 to 46 */
} pillion_conv2d_s16_params;
void pillion_conv2d_s16(const pillion_conv2d_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

/* The same for each channel on its own. */
typedef struct {
    int32_t batch, in_h, in_w, out_h, out_w, channels;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, low, high;
    const int8_t *weights;     /* [kernel_h][kernel_w][channels] */
    const int32_t *bias;       /* [channels] */
    const int32_t *multiplier; /* [channels]: at most 15 bits */
    const int32_t *right;      /* [channels]: 1 to 46 */
} pillion_depthwise_conv2d_s16_params;
void pillion_depthwise_conv2d_s16(const pillion_depthwise_conv2d_s16_params *p, const int16_t *x, int16_t *y,
                                  void *scratch);

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

/* The shares of rows, in steps of 2^-15, by tables of exp on [-10, 0] and of 1 / (1 + x) on [0, 1]. */
typedef struct {
    int32_t rows, count, multiplier, shift;
    const int16_t *exponentials, *reciprocals; /* [513] */
} pillion_softmax_s16_params;
void pillion_softmax_s16(const pillion_softmax_s16_params *p, const int16_t *x, int16_t *y, void *scratch);

#endif
