/* SPDX-License-Identifier: Apache-2.0
 * The most extreme elements of a row, one after another. */
#ifndef PILLION_TOP_H
#define PILLION_TOP_H

#include <stdint.h>

/* The position of the element that follows the one at `before` in order; of the first one if `before` is -1. More extreme elements come
 * first; of equal elements, the one at the lower position. */
static inline int32_t pillion_next_of_top(const element *x, int32_t size, int32_t largest, int32_t before) {
    const int32_t sign = largest ? 1 : -1;
    const int32_t bound = before < 0 ? 100000 : sign * x[before];
    int32_t place = -1, best = -100000;
    for (int32_t i = 0; i < size; i++) {
        const int32_t level = sign * x[i];
        if (level > best && (level < bound || (level == bound && i > before))) {
            best = level, place = i;
        }
    }
    return place;
}

#endif
