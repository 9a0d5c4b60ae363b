/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/scalar.h"
#include "pillion/window.h"
#include "dot.h"

static int32_t *fill(int32_t *to, int32_t value, int32_t count) {
    for (; count > 0; count--, to += PILLION_SCALAR_PIXELS) {
        *to = value;
    }
    return to;
}

static int32_t *widen(int32_t *to, const int8_t *from, int32_t count) {
    for (; count > 0; count--, to += PILLION_SCALAR_PIXELS) {
        *to = *from++;
    }
    return to;
}

/* The window of one output, in the order of its weights: every third number of the block. */
static void gather(const pillion_conv2d_s8_scalar_params *p, const int8_t *x, int32_t top, int32_t left, int32_t *to) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t in_c = p->in_c, step = p->dilation_w * in_c, row_inputs = p->kernel_w * in_c;
    const int32_t inside = columns.last - columns.first;
    to = fill(to, p->in_zp, rows.first * row_inputs);
    for (int32_t ky = rows.first; ky < rows.last; ky++) {
        const int8_t *from = x + ((top + ky * p->dilation_h) * p->in_w + left) * in_c + columns.first * step;
        to = fill(to, p->in_zp, columns.first * in_c);
        if (p->dilation_w == 1) {
            to = widen(to, from, inside * in_c);
        } else {
            for (int32_t kx = 0; kx < inside; kx++) {
                to = widen(to, from + kx * step, in_c);
            }
        }
        to = fill(to, p->in_zp, (p->kernel_w - columns.last) * in_c);
    }
    fill(to, p->in_zp, (p->kernel_h - rows.last) * row_inputs);
}

/* The outputs of all images are consecutive. The last group of three may compute finished outputs again. */
typedef struct {
    int32_t oy, ox;
    const int8_t *image;
} place;

static void go_on(const pillion_conv2d_s8_scalar_params *p, place *at) {
    if (++at->ox == p->out_w) {
        at->ox = 0;
        if (++at->oy == p->out_h) {
            at->oy = 0;
            at->image += p->in_h * p->in_w * p->in_c;
        }
    }
}

void pillion_conv2d_s8_scalar(const pillion_conv2d_s8_scalar_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const pillion_scalar_channels c = {p->weights, p->constants, p->inputs, p->out_c};
    const int32_t outputs = p->batch * p->out_h * p->out_w, out_c = p->out_c;
    int32_t *const block = scratch;
    place at = {0, 0, x};
    for (int32_t output = 0; output < outputs; output += PILLION_SCALAR_PIXELS) {
        int8_t *ys[PILLION_SCALAR_PIXELS];
        for (int32_t i = 0; i < PILLION_SCALAR_PIXELS; i++) {
            /* Behind the last output, its window is still there, and it is written again. */
            const int32_t is_there = output + i < outputs;
            ys[i] = y + (is_there ? output + i : outputs - 1) * out_c;
            if (is_there) {
                gather(p, at.image, at.oy * p->stride_h - p->pad_top, at.ox * p->stride_w - p->pad_left, block + i);
                go_on(p, &at);
            } else {
                for (int32_t k = 0; k < PILLION_SCALAR_PIXELS * p->inputs; k += PILLION_SCALAR_PIXELS) {
                    block[k + i] = block[k + i - 1];
                }
            }
        }
        pillion_scalar_dot(&c, block, ys);
    }
    pillion_scalar_clamp(y, outputs * out_c, p->low, p->high);
}
