/* SPDX-License-Identifier: Apache-2.0
 * Elements are worked on in blocks: all of a block are read before the first is written, so that a result may overwrite
 * its operand, and so that the loops become vector code without asking whether it does. */
#ifndef PILLION_BLOCKS_H
#define PILLION_BLOCKS_H

#include "pillion/requantize.h"

enum { PILLION_BLOCK = 32 };

/* Of the elements from `at` on, how many are in the block that begins there. */
static inline int32_t pillion_block_count(int32_t at, int32_t whole) {
    return whole - at < PILLION_BLOCK ? whole - at : PILLION_BLOCK;
}

/* Some elements of an operand, or one element as often (step 0). */
static inline void pillion_load(int8_t *block, const int8_t *x, int32_t step, int32_t count) {
    if (step == 0) {
        const int8_t value = *x;
        for (int32_t i = 0; i < count; i++) {
            block[i] = value;
        }
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        block[i] = x[i];
    }
}

static inline void pillion_store(int8_t *y, const int8_t *block, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        y[i] = block[i];
    }
}

#endif
