/* SPDX-License-Identifier: Apache-2.0
 * Rows of an image between two others, in 1024 parts for each axis. */
#ifndef PILLION_BILINEAR_H
#define PILLION_BILINEAR_H

#include <stdint.h>

enum { ONE = 1024, HALF = ONE * ONE / 2 };

/* Nearest integer, half away from zero. */
static inline int8_t rounded(int32_t sum) {
    return (int8_t)((sum + (sum < 0 ? -HALF : HALF)) / (ONE * ONE));
}

/* One output row between two input rows; the lower one counts for `lower` parts of 1024. For each pixel, `column` has two columns of the
 * image and the parts of the second one. */
static inline int8_t *pillion_row_between(const int32_t *column, int32_t out_w, int32_t channels, const int8_t *top, const int8_t *bottom,
                                          int32_t lower, int8_t *y) {
    for (int32_t ox = 0; ox < out_w; ox++, column += 3) {
        const int32_t left = column[0] * channels, right = column[1] * channels, part = column[2];
        for (int32_t c = 0; c < channels; c++) {
            const int32_t first = top[left + c] * (ONE - part) + top[right + c] * part;
            const int32_t second = bottom[left + c] * (ONE - part) + bottom[right + c] * part;
            *y++ = rounded(first * (ONE - lower) + second * lower);
        }
    }
    return y;
}

#endif
