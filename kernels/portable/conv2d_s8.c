/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

/* The taps of one kernel axis that fall inside the image: [first, last). */
typedef struct {
    int32_t first, last;
} range;

static range taps_inside(int32_t start, int32_t dilation, int32_t taps, int32_t size) {
    range r = {0, taps};
    while (r.first < taps && start + r.first * dilation < 0) {
        r.first++;
    }
    while (r.last > r.first && start + (r.last - 1) * dilation >= size) {
        r.last--;
    }
    return r;
}

static int32_t dot(const int8_t *x, const int8_t *w, int32_t count, int32_t in_zp) {
    int32_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += (x[i] - in_zp) * w[i];
    }
    return sum;
}

void pillion_conv2d_s8(const pillion_conv2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t group_in = p->in_c / p->groups;
    const int32_t group_out = p->out_c / p->groups;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->in_c) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            const int32_t top = oy * p->stride_h - p->pad_top;
            const range rows = taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                const int32_t left = ox * p->stride_w - p->pad_left;
                const range columns = taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
                for (int32_t oc = 0; oc < p->out_c; oc++) {
                    const int32_t first_channel = oc / group_out * group_in;
                    int32_t sum = p->bias[oc];
                    for (int32_t ky = rows.first; ky < rows.last; ky++) {
                        for (int32_t kx = columns.first; kx < columns.last; kx++) {
                            const int32_t pixel =
                                (top + ky * p->dilation_h) * p->in_w + left + kx * p->dilation_w;
                            const int32_t tap = (oc * p->kernel_h + ky) * p->kernel_w + kx;
                            sum += dot(x + pixel * p->in_c + first_channel, p->weights + tap * group_in, group_in,
                                       p->in_zp);
                        }
                    }
                    const int32_t value = pillion_requantize(sum, p->multiplier[oc], p->shift[oc]) + p->out_zp;
                    *y++ = (int8_t)pillion_clamp(value, p->low, p->high);
                }
            }
        }
    }
}
