/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/dot.h"
#include "pillion/kernels.h"
#include "pillion/window.h"

static int8_t *copy(int8_t *to, const int8_t *from, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = from[i];
    }
    return to + count;
}

static int8_t *fill(int8_t *to, int8_t value, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        to[i] = value;
    }
    return to + count;
}

/* Puts all inputs of one output pixel and group next to each other. `origin` is the index in x of the window's first
 * tap, be it inside the image or not. */
static void gather(const pillion_conv2d_s8_params *p, const int8_t *x, int32_t origin, pillion_range rows,
                   pillion_range columns, int8_t *to) {
    const int32_t count = p->in_c / p->groups, inside = columns.last - columns.first;
    const int32_t row_step = p->dilation_h * p->in_w * p->in_c, column_step = p->dilation_w * p->in_c;
    const int8_t zero = (int8_t)p->in_zp;
    to = fill(to, zero, rows.first * p->kernel_w * count);
    for (int32_t ky = rows.first; ky < rows.last; ky++) {
        const int8_t *from = x + (origin + ky * row_step + columns.first * column_step);
        to = fill(to, zero, columns.first * count);
        if (column_step == count) {
            to = copy(to, from, inside * count);
        } else {
            for (int32_t kx = 0; kx < inside; kx++) {
                to = copy(to, from + kx * column_step, count);
            }
        }
        to = fill(to, zero, (p->kernel_w - columns.last) * count);
    }
    fill(to, zero, (p->kernel_h - rows.last) * p->kernel_w * count);
}

static void pixel(const pillion_conv2d_s8_params *p, const pillion_channels *groups, const int8_t *x, int32_t top,
                  int32_t left, int8_t *y, int8_t *window) {
    const pillion_range rows = pillion_taps_inside(top, p->dilation_h, p->kernel_h, p->in_h);
    const pillion_range columns = pillion_taps_inside(left, p->dilation_w, p->kernel_w, p->in_w);
    const int32_t origin = (top * p->in_w + left) * p->in_c;
    pillion_channels group = *groups;
    for (int32_t g = 0; g < p->groups; g++) {
        gather(p, x, origin + g * (p->in_c / p->groups), rows, columns, window);
        pillion_answer(&group, (pillion_rows){.x = window, .y = y, .count = 1}, pillion_finish);
        group.weights += 4 * group.fours * group.count;
        group.bias += group.count;
        group.multiplier += group.count;
        group.shift += group.count;
        y += group.count;
    }
}

static void row(const pillion_conv2d_s8_params *p, const pillion_channels *groups, const int8_t *x, int32_t top,
                int8_t *y, int8_t *window) {
    if (p->pointwise) {
        const pillion_rows pixels = {.x = x + top * p->in_w * p->in_c, .y = y, .count = p->out_w,
                                     .x_step = p->stride_w * p->in_c, .y_step = p->out_c};
        pillion_answer(groups, pixels, pillion_finish);
        return;
    }
    for (int32_t ox = 0; ox < p->out_w; ox++) {
        pixel(p, groups, x, top, ox * p->stride_w - p->pad_left, y + ox * p->out_c, window);
    }
}

void pillion_conv2d_s8(const pillion_conv2d_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t inputs = p->kernel_h * p->kernel_w * (p->in_c / p->groups);
    const pillion_channels groups = {.weights = p->weights, .bias = p->bias, .multiplier = p->multiplier,
                                     .shift = p->shift, .count = p->out_c / p->groups, .fours = (inputs + 3) / 4,
                                     .out_zp = p->out_zp, .low = p->low, .high = p->high};
    for (int32_t n = 0; n < p->batch; n++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            row(p, &groups, x, oy * p->stride_h - p->pad_top, y, scratch);
            y += p->out_w * p->out_c;
        }
        x += p->in_h * p->in_w * p->in_c;
    }
}
