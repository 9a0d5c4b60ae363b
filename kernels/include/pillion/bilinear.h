/* SPDX-License-Identifier: Apache-2.0
 * Bilinear resizing in 1024 parts for each axis: which rows and columns a result lies between, and in which shares. Before this, a file
 * defines `element`, and `row_between` with the declaration below. */
#ifndef PILLION_BILINEAR_H
#define PILLION_BILINEAR_H

#include "pillion/kernels.h"
#include "pillion/requantize.h"

enum { ONE = 1024 };

/* The shares of four pixels of the image, in parts of ONE * ONE: left and right of the upper row, left and right of the lower one. */
typedef struct {
    int32_t upper_left, upper_right, lower_left, lower_right;
} shares;

/* The shares where the right column has `right` parts and the lower row `lower`. */
static inline shares shares_of(int32_t right, int32_t lower) {
    const int32_t both = right * lower, upper_right = right * ONE - both, lower_left = lower * ONE - both;
    return (shares){ONE * ONE - lower * ONE - upper_right, upper_right, lower_left, both};
}

/* One output row between two input rows; the lower one counts for `lower` parts. For each pixel, `column` has two columns of the image
 * and the parts of the second one. */
PILLION_APART element *row_between(const int32_t *column, int32_t out_w, int32_t channels, const element *top, const element *bottom,
                                   int32_t lower, element *y);

static inline void resize(const pillion_resize_bilinear_s8_params *p, const element *x, element *y) {
    const int32_t row_elements = p->in_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * row_elements) {
        const int32_t *line = p->rows;
        for (int32_t oy = 0; oy < p->out_h; oy++, line += 3) {
            const element *const top = x + line[0] * row_elements, *const bottom = x + line[1] * row_elements;
            y = row_between(p->columns, p->out_w, p->channels, top, bottom, line[2], y);
        }
    }
}

/* The row of the image in front of a position. Before the first one there is none: it is then that one. */
static inline int32_t row_above(int32_t position) {
    return position < 0 ? 0 : position / ONE;
}

/* The row of the image behind a position, or at it. */
static inline int32_t row_below(int32_t position, int32_t last) {
    const int32_t row = (position + ONE - 1) / ONE;
    return row < last ? row : last;
}

static inline void resize_rows(const pillion_resize_bilinear_rows_s8_params *p, const element *x, uint32_t first,
                               element *y) {
    const int32_t row_elements = p->in_w * p->channels;
    int32_t position = p->start + (int32_t)first * p->step;
    const int32_t begin = row_above(position);
    for (int32_t oy = 0; oy < p->out_h; oy++, position += p->step) {
        const int32_t above = row_above(position), below = row_below(position, p->last);
        const element *const top = x + (above - begin) * row_elements, *const bottom = x + (below - begin) * row_elements;
        y = row_between(p->columns, p->out_w, p->channels, top, bottom, position - ONE * above, y);
    }
}

#endif
