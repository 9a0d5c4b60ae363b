/* SPDX-License-Identifier: Apache-2.0
 * Which part of a window lies inside the image. */
#ifndef PILLION_WINDOW_H
#define PILLION_WINDOW_H

#include <stdint.h>

/* Taps of one axis: [first, last). */
typedef struct {
    int32_t first, last;
} pillion_range;

static inline pillion_range pillion_taps_inside(int32_t start, int32_t dilation, int32_t taps, int32_t size) {
    pillion_range r = {0, taps};
    while (r.first < taps && start + r.first * dilation < 0) {
        r.first++;
    }
    while (r.last > r.first && start + (r.last - 1) * dilation >= size) {
        r.last--;
    }
    return r;
}

/* The part of a window inside the image, in steps from one element of x or of the weights to the next. */
typedef struct {
    int32_t rows, columns;
    int32_t x_row_step, w_row_step, x_step, w_step;
    int32_t in_zp;
} pillion_taps;

#endif
