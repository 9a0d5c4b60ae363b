/* SPDX-License-Identifier: Apache-2.0
 * One number of an image after the other, each between four pixels. */
#ifndef PILLION_PORTABLE_BILINEAR_H
#define PILLION_PORTABLE_BILINEAR_H

#include "pillion/bilinear.h"

enum { HALF = ONE * ONE / 2 };

/* Nearest integer, half away from zero: half up, with a negative sum less by one. */
static inline element rounded(total sum) {
    return (element)((sum + HALF - (sum < 0)) >> 20);
}

PILLION_APART element *row_between(const int32_t *column, int32_t out_w, int32_t channels, const element *top, const element *bottom,
                                   int32_t lower, element *y) {
    for (int32_t ox = 0; ox < out_w; ox++, column += 3) {
        const element *const end = top + (column[0] + 1) * channels;
        const int32_t across = (column[1] - column[0]) * channels, down = (int32_t)(bottom - top);
        const shares of = shares_of(column[2], lower);
        for (const element *x = end - channels; x != end; x++) {
            const element *const below = x + down;
            *y++ = rounded((total)x[0] * of.upper_left + (total)x[across] * of.upper_right + (total)below[0] * of.lower_left +
                           (total)below[across] * of.lower_right);
        }
    }
    return y;
}

#endif
