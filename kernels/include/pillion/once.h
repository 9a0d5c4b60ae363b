/* SPDX-License-Identifier: Apache-2.0
 * Sums that are scaled in double precision and rounded once, half away from zero, without floating point: by multipliers and
 * offsets with which the compiler has proven the answer for every sum that can be. */
#ifndef PILLION_ONCE_H
#define PILLION_ONCE_H

#include "pillion/requantize.h"

typedef struct {
    int32_t multiplier;
    uint32_t offset_low; /* half of the lowest result bit, and the zero point */
    int32_t offset_high;
    int32_t right; /* from the upper half of the product on */
} pillion_once;

/* y[i] = clamp((sum * multiplier + offset) >> (32 + right)); a negative sum is less by a trifle, for its ties. */
static inline void pillion_round_once(const int32_t *sums, const int32_t *numbers, int32_t count, int32_t low,
                                      int32_t high, int8_t *y) {
    const pillion_once *by = (const pillion_once *)(const void *)numbers;
    for (int32_t i = 0; i < count; i++, by++) {
        const int32_t sum = sums[i];
        const int64_t offset = (int64_t)((uint64_t)(uint32_t)by->offset_high << 32 | by->offset_low);
        const int64_t product = (int64_t)sum * by->multiplier + offset + (sum >> 31);
        y[i] = (int8_t)pillion_clamp((int32_t)(product >> 32) >> by->right, low, high);
    }
}

#endif
