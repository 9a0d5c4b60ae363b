/* SPDX-License-Identifier: Apache-2.0
 * Convolution with 16-bit results. Who includes this defines the types `params` and `operand`, and PRODUCT(p, x, w) of an
 * operand and a weight. */
#ifndef PILLION_CONV16_H
#define PILLION_CONV16_H

#include "pillion/window16.h"

/* The sum of one output channel; x and w are at the first tap inside the image. */
PILLION_INLINE int64_t sum_of(const params *p, const operand *x, const int8_t *w, int32_t rows,
                              int32_t columns) {
    const int32_t count = p->in_c / p->groups, row_step = p->dilation_h * p->in_w * p->in_c, step = p->dilation_w * p->in_c;
    int64_t sum = 0;
    for (int32_t ky = 0; ky < rows; ky++) {
        for (int32_t kx = 0; kx < columns; kx++) {
            const operand *const xs = x + ky * row_step + kx * step;
            const int8_t *const ws = w + (ky * p->kernel_w + kx) * count;
            for (int32_t k = 0; k < count; k++) {
                sum += PRODUCT(p, xs[k], ws[k]);
            }
        }
    }
    return sum;
}

static void pixel(const params *p, const operand *x, int32_t top, int32_t left, int16_t *y) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t count = p->in_c / p->groups, outputs = p->out_c / p->groups, taps = p->kernel_h * p->kernel_w * count;
    const operand *const from =
        x + ((top + rows.first * p->dilation_h) * p->in_w + left + columns.first * p->dilation_w) * p->in_c;
    const int8_t *w = p->weights + (rows.first * p->kernel_w + columns.first) * count;
    for (int32_t c = 0; c < p->out_c; c++, w += taps) {
        const int64_t sum =
            sum_of(p, from + c / outputs * count, w, rows.last - rows.first, columns.last - columns.first) + p->bias[c];
        y[c] = pillion_round_layer_to_16(sum, p->multiplier[c], p->right[c], p->low, p->high);
    }
}

PILLION_INLINE void convolve(const params *p, const operand *x, int16_t *y) {
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++, y += p->out_c) {
                pixel(p, x, oy * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left, y);
            }
        }
        x += p->in_h * p->in_w * p->in_c;
    }
}

#endif
