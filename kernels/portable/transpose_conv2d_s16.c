/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/window16.h"

/* The index of the input that reaches `place` by way of a tap, or -1: place = input * stride + tap * dilation. */
static int32_t source(int32_t place, int32_t tap, int32_t dilation, int32_t stride, int32_t size) {
    const int32_t rest = place - tap * dilation;
    return rest >= 0 && rest % stride == 0 && rest / stride < size ? rest / stride : -1;
}

static int64_t sum_of(const pillion_transpose_conv2d_s16_params *p, const int16_t *x, const int8_t *w, int32_t top,
                      int32_t left) {
    int64_t sum = 0;
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t row = source(top, ky, p->dilation_h, p->stride_h, p->in_h);
        for (int32_t kx = 0; row >= 0 && kx < p->kernel_w; kx++) {
            const int32_t column = source(left, kx, p->dilation_w, p->stride_w, p->in_w);
            for (int32_t k = 0; column >= 0 && k < p->in_c; k++) {
                sum += x[(row * p->in_w + column) * p->in_c + k] * w[(ky * p->kernel_w + kx) * p->in_c + k];
            }
        }
    }
    return sum;
}

void pillion_transpose_conv2d_s16(const pillion_transpose_conv2d_s16_params *p, const int16_t *x, int16_t *y,
                                  void *scratch) {
    (void)scratch;
    const int32_t taps = p->kernel_h * p->kernel_w * p->in_c;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c) {
        for (int32_t at = 0; at < p->out_h * p->out_w; at++) {
            const int32_t top = at / p->out_w + p->pad_top, left = at % p->out_w + p->pad_left;
            for (int32_t c = 0; c < p->out_c; c++) {
                const int64_t sum = sum_of(p, x, p->weights + c * taps, top, left) + p->bias[c];
                *y++ = pillion_round_layer_to_16(sum, p->multiplier[c], p->right[c], p->low, p->high);
            }
        }
    }
}
