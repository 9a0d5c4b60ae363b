/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

/* The index of the input that reaches `place` by way of a tap, or -1: place = input * stride + tap * dilation. */
static int32_t source(int32_t place, int32_t tap, int32_t dilation, int32_t stride, int32_t size) {
    const int32_t rest = place - tap * dilation;
    return rest >= 0 && rest % stride == 0 && rest / stride < size ? rest / stride : -1;
}

/* Adds an input pixel times its weights to the sums of all output channels, four at a time. */
static void add(const pillion_transpose_conv2d_s8_params *p, const int8_t *x, const int8_t *w, int32_t *sums) {
    const int32_t depth = p->in_c;
    int32_t c = 0;
    for (; c + 4 <= p->out_c; c += 4, w += 4 * depth) {
        int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (int32_t k = 0; k < depth; k++) {
            const int32_t value = x[k] - p->in_zp;
            s0 += value * w[k];
            s1 += value * w[depth + k];
            s2 += value * w[2 * depth + k];
            s3 += value * w[3 * depth + k];
        }
        sums[c] += s0;
        sums[c + 1] += s1;
        sums[c + 2] += s2;
        sums[c + 3] += s3;
    }
    for (; c < p->out_c; c++, w += depth) {
        for (int32_t k = 0; k < depth; k++) {
            sums[c] += (x[k] - p->in_zp) * w[k];
        }
    }
}

static void pixel(const pillion_transpose_conv2d_s8_params *p, const int8_t *x, int32_t top, int32_t left,
                  int32_t *sums, int8_t *y) {
    for (int32_t c = 0; c < p->out_c; c++) {
        sums[c] = p->bias[c];
    }
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        const int32_t row = source(top, ky, p->dilation_h, p->stride_h, p->in_h);
        for (int32_t kx = 0; row >= 0 && kx < p->kernel_w; kx++) {
            const int32_t column = source(left, kx, p->dilation_w, p->stride_w, p->in_w);
            if (column >= 0) {
                const int8_t *const weights = p->weights + (ky * p->kernel_w + kx) * p->out_c * p->in_c;
                add(p, x + (row * p->in_w + column) * p->in_c, weights, sums);
            }
        }
    }
    for (int32_t c = 0; c < p->out_c; c++) {
        const int32_t scaled = pillion_requantize(sums[c], p->multiplier[c], p->shift[c]);
        y[c] = pillion_saturate(scaled, p->out_zp, p->low, p->high);
    }
}

void pillion_transpose_conv2d_s8(const pillion_transpose_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch) {
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            for (int32_t ox = 0; ox < p->out_w; ox++, y += p->out_c) {
                pixel(p, x, oy + p->pad_top, ox + p->pad_left, scratch, y);
            }
        }
    }
}
