/* SPDX-License-Identifier: Apache-2.0
 * Memory of filters that moves on. */
#ifndef PILLION_REMEMBER_H
#define PILLION_REMEMBER_H

#include "pillion/requantize.h"
#include "pillion/rows.h"

/* All of a memory of `length` numbers for each filter goes one place to the front; behind the rest comes the newest one. y may be memory. */
PILLION_INLINE void pillion_remember(const int16_t *memory, int32_t filters, int32_t length, const int16_t *newest, int16_t *y) {
    pillion_move_rows(y, memory + 1, (uint32_t)(filters * length - 1) * sizeof *y);
    int16_t *last = y + length - 1;
    for (int32_t i = 0; i < filters; i++, last += length) {
        *last = newest[i];
    }
}

#endif
