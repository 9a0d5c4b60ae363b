/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/window16.h"

static void pixel(const pillion_depthwise_conv2d_s16_params *p, const int16_t *x, int32_t top, int32_t left, int16_t *y) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
    for (int32_t c = 0; c < p->channels; c++) {
        int64_t sum = p->bias[c];
        for (int32_t ky = rows.first; ky < rows.last; ky++) {
            for (int32_t kx = columns.first; kx < columns.last; kx++) {
                const int32_t row = top + ky * p->dilation_h, column = left + kx * p->dilation_w;
                const int32_t product = x[(row * p->in_w + column) * p->channels + c] *
                                        p->weights[(ky * p->kernel_w + kx) * p->channels + c];
                sum += product;
            }
        }
        y[c] = pillion_round_layer_to_16(sum, p->multiplier[c], p->right[c], p->low, p->high);
    }
}

void pillion_depthwise_conv2d_s16(const pillion_depthwise_conv2d_s16_params *p, const int16_t *x, int16_t *y,
                                  void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++, y += p->channels) {
                pixel(p, x, oy * p->stride_h - p->pad_top, ox * p->stride_w - p->pad_left, y);
            }
        }
        x += p->in_h * p->in_w * p->channels;
    }
}
