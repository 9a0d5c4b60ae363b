/* SPDX-License-Identifier: Apache-2.0
 * Sums of elements that lie apart, to which rows are added a few at a time. */
#ifndef PILLION_SUMS_OF_ROWS_H
#define PILLION_SUMS_OF_ROWS_H

#include <stdint.h>

enum { TOGETHER = 4 };

/* Adds so many rows of up to four neighbouring elements, each times `sign`, to their sums. */
static inline void pillion_add_rows(const int8_t *x, int32_t rows, int32_t inner, int32_t count, int32_t sign, int32_t *sums) {
    if (count < TOGETHER) {
        for (int32_t n = 0; n < rows; n++, x += inner) {
            for (int32_t i = 0; i < count; i++) {
                sums[i] += sign * x[i];
            }
        }
        return;
    }
    int32_t a = 0, b = 0, c = 0, d = 0;
    for (int32_t n = 0; n < rows; n++, x += inner) {
        a += x[0];
        b += x[1];
        c += x[2];
        d += x[3];
    }
    sums[0] += sign * a;
    sums[1] += sign * b;
    sums[2] += sign * c;
    sums[3] += sign * d;
}

/* Adds so many rows of `inner` elements to their sums, which begin with the first ones. */
static inline void pillion_take_in_rows(const int8_t *x, int32_t rows, int32_t inner, int32_t is_first, int32_t *sums) {
    for (int32_t i = 0; is_first && i < inner; i++) {
        sums[i] = 0;
    }
    for (int32_t i = 0; i < inner; i += TOGETHER) {
        pillion_add_rows(x + i, rows, inner, inner - i < TOGETHER ? inner - i : TOGETHER, 1, sums + i);
    }
}

#endif
