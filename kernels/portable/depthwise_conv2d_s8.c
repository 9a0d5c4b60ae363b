/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/dot.h"
#include "pillion/kernels.h"
#include "pillion/window.h"

#if PILLION_SCALAR_CORE
/* The sums need names of their own to stay in registers at every level of optimization. */
PILLION_APART void window_4(const pillion_taps *t, const int8_t *x, const int8_t *w, const int32_t *bias,
                            uint32_t *sums) {
    const int32_t in_zp = t->in_zp, x_step = t->x_step, w_step = t->w_step;
    uint32_t s0 = (uint32_t)bias[0], s1 = (uint32_t)bias[1], s2 = (uint32_t)bias[2], s3 = (uint32_t)bias[3];
    for (int32_t ky = 0; ky < t->rows; ky++) {
        const int8_t *xs = x + ky * t->x_row_step, *ws = w + ky * t->w_row_step;
        for (int32_t n = t->columns; n > 0; n--, xs += x_step, ws += w_step) {
            s0 += (uint32_t)((xs[0] - in_zp) * ws[0]);
            s1 += (uint32_t)((xs[1] - in_zp) * ws[1]);
            s2 += (uint32_t)((xs[2] - in_zp) * ws[2]);
            s3 += (uint32_t)((xs[3] - in_zp) * ws[3]);
        }
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}
#endif

/* sums[j] = bias[j] + sum over all taps of (x[j] - in_zp) * w[j] */
PILLION_INLINE void window(const pillion_taps *t, const int8_t *x, const int8_t *w, const int32_t *bias, uint32_t *sums,
                           int32_t lanes) {
#if PILLION_SCALAR_CORE
    if (lanes == 4) {
        window_4(t, x, w, bias, sums);
        return;
    }
#elif defined(__AVX2__)
    if (lanes >= 8) {
        pillion_window_x86(t, x, w, bias, sums, lanes);
        return;
    }
#endif
    const int32_t in_zp = t->in_zp;
    uint32_t sum[PILLION_MAX_LANES];
    for (int32_t j = 0; j < lanes; j++) {
        sum[j] = 0;
    }
    for (int32_t ky = 0; ky < t->rows; ky++) {
        const int8_t *xs = x + ky * t->x_row_step, *ws = w + ky * t->w_row_step;
        for (int32_t kx = 0; kx < t->columns; kx++, xs += t->x_step, ws += t->w_step) {
            for (int32_t j = 0; j < lanes; j++) {
                sum[j] += (uint32_t)((xs[j] - in_zp) * ws[j]);
            }
        }
    }
    for (int32_t j = 0; j < lanes; j++) {
        sums[j] = (uint32_t)bias[j] + sum[j];
    }
}

PILLION_INLINE void pixel_of(const pillion_channels *c, const pillion_taps *t, const int8_t *x, const int8_t *w,
                             int8_t *y, int32_t lanes) {
    for (int32_t lane = 0; lane < c->count; lane += lanes) {
        const int32_t first = pillion_block_start(lane, c->count, lanes);
        uint32_t sums[PILLION_MAX_LANES];
        window(t, x + first, w + first, c->bias + first, sums, lanes);
        pillion_finish(c, sums, first, y + first, lanes);
    }
}

/* One output pixel; x and w are at the first tap inside the image. */
static void pixel(const pillion_channels *c, const pillion_taps *t, const int8_t *x, const int8_t *w, int8_t *y) {
#if PILLION_SCALAR_CORE
    pixel_of(c, t, x, w, y, c->count >= 4 ? 4 : 1);
#else
    if (c->count >= 32) {
        pixel_of(c, t, x, w, y, 32);
    } else if (c->count >= 16) {
        pixel_of(c, t, x, w, y, 16);
    } else if (c->count >= 8) {
        pixel_of(c, t, x, w, y, 8);
    } else {
        pixel_of(c, t, x, w, y, 1);
    }
#endif
}

static void row(const pillion_depthwise_conv2d_s8_params *p, const pillion_channels *c, const int8_t *x, int32_t top,
                int8_t *y) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    pillion_taps t = {.x_row_step = p->dilation_h * p->in_w * c->count, .w_row_step = p->kernel_w * c->count,
                      .x_step = p->dilation_w * c->count, .w_step = c->count,
                      .rows = rows.last - rows.first, .in_zp = p->in_zp};
    for (int32_t ox = 0; ox < p->out_w; ox++, y += c->count) {
        const int32_t left = ox * p->stride_w - p->pad_left;
        const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
        const int32_t at = (top * p->in_w + left) * c->count + rows.first * t.x_row_step + columns.first * t.x_step;
        const int32_t tap = rows.first * t.w_row_step + columns.first * t.w_step;
        t.columns = columns.last - columns.first;
        pixel(c, &t, x + at, c->weights + tap, y);
    }
}

void pillion_depthwise_conv2d_s8(const pillion_depthwise_conv2d_s8_params *p, const int8_t *x, int8_t *y,
                                 void *scratch) {
    (void)scratch;
    const pillion_channels c = {.weights = p->weights, .bias = p->bias, .multiplier = p->multiplier, .shift = p->shift,
                                .count = p->channels, .out_zp = p->out_zp, .low = p->low, .high = p->high};
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            row(p, &c, x, oy * p->stride_h - p->pad_top, y);
            y += p->out_w * p->channels;
        }
        x += p->in_h * p->in_w * p->channels;
    }
}
