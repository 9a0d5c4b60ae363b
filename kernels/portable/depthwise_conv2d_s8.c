/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

static int32_t window_sum(const pillion_depthwise_conv2d_s8_params *p, const int8_t *image, int32_t top, int32_t left,
                          int32_t oc) {
    const int32_t channel = oc / (p->out_c / p->in_c);
    int32_t sum = p->bias[oc];
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t row = top + ky * p->dilation_h;
        if (row < 0 || row >= p->in_h) {
            continue;
        }
        for (int32_t kx = 0; kx < p->kernel_w; kx++) {
            const int32_t column = left + kx * p->dilation_w;
            if (column < 0 || column >= p->in_w) {
                continue;
            }
            const int32_t x = image[(row * p->in_w + column) * p->in_c + channel];
            sum += (x - p->in_zp) * p->weights[(ky * p->kernel_w + kx) * p->out_c + oc];
        }
    }
    return sum;
}

void pillion_depthwise_conv2d_s8(const pillion_depthwise_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                const int32_t top = oy * p->stride_h - p->pad_top;
                const int32_t left = ox * p->stride_w - p->pad_left;
                for (int32_t oc = 0; oc < p->out_c; oc++) {
                    const int32_t sum = window_sum(p, x, top, left, oc);
                    const int32_t value = pillion_requantize(sum, p->multiplier[oc], p->shift[oc]) + p->out_zp;
                    *y++ = (int8_t)pillion_clamp(value, p->low, p->high);
                }
            }
        }
    }
}
