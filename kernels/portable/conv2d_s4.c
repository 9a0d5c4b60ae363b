/* SPDX-License-Identifier: Apache-2.0
 * One output channel at a time: its weights are unpacked to bytes once for all pixels. */
#include "pillion/layers4.h"
#include "pillion/requantize.h"
#include "pillion/window.h"

/* The sum of one window, whose first tap is at row `top` and column `left` of the image x. */
PILLION_INLINE int32_t sum_of(const pillion_conv2d_s4_params *p, const int8_t *x, const int8_t *w, int32_t top, int32_t left) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t count = p->in_c / p->groups;
    int32_t sum = 0;
    for (int32_t ky = rows.first; ky < rows.last; ky++) {
        for (int32_t kx = columns.first; kx < columns.last; kx++) {
            const int8_t *const xs = x + ((top + ky * p->dilation_h) * p->in_w + left + kx * p->dilation_w) * p->in_c;
            const int8_t *const ws = w + (ky * p->kernel_w + kx) * count;
            for (int32_t k = 0; k < count; k++) {
                sum += (xs[k] - p->in_zp) * ws[k];
            }
        }
    }
    return sum;
}

void pillion_conv2d_s4(const pillion_conv2d_s4_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t inputs = p->in_c / p->groups, outputs = p->out_c / p->groups, image = p->in_h * p->in_w * p->in_c;
    const int32_t pixels = p->batch * p->out_h * p->out_w;
    const int8_t *packed = p->weights;
    for (int32_t c = 0; c < p->out_c; c++) {
        packed = pillion_unpack_4(packed, p->kernel_h * p->kernel_w * inputs, scratch);
        const int8_t *const from = x + c / outputs * inputs;
        for (int32_t at = 0; at < pixels; at++) {
            const int32_t ox = at % p->out_w, row = at / p->out_w, oy = row % p->out_h, n = row / p->out_h;
            const int32_t sum = p->bias[c] + sum_of(p, from + n * image, scratch, oy * p->stride_h - p->pad_top,
                                                    ox * p->stride_w - p->pad_left);
            const int32_t level = pillion_requantize(sum, p->multiplier[c], p->shift[c]);
            y[at * p->out_c + c] = pillion_saturate(level, p->out_zp, p->low, p->high);
        }
    }
}
