/* SPDX-License-Identifier: Apache-2.0
 * A matrix product, the same for both ways of scaling its sums. */
#ifndef PILLION_LINEAR_H
#define PILLION_LINEAR_H

#include "pillion/dot.h"

/* The number of rows whose inputs share the first-level cache while the weights stream past. */
enum { PILLION_NEAR_ROWS = 16 };

/* Rows with a length that is no multiple of four are copied to memory with readable bytes behind it. */
static inline void pillion_linear(const pillion_channels *c, const int8_t *x, int32_t rows, int32_t in_features,
                                  int8_t *y, int8_t *window, pillion_finisher *finish) {
    const int32_t is_whole = in_features % 4 == 0;
    const int32_t step = is_whole ? PILLION_NEAR_ROWS : 1;
    for (int32_t row = 0; row < rows; row += step) {
        const int32_t count = rows - row < step ? rows - row : step;
        pillion_rows near = {.x = x + row * in_features, .y = y + row * c->count, .count = count,
                             .x_step = in_features, .y_step = c->count};
        if (!is_whole) {
            for (int32_t k = 0; k < in_features; k++) {
                window[k] = near.x[k];
            }
            near.x = window;
        }
        pillion_answer(c, near, finish);
    }
}

#endif
