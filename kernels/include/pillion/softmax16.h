/* SPDX-License-Identifier: Apache-2.0
 * Code that the 16-bit softmax kernels share: tables with an entry for every 128th level, and the inverse of a row's sum. */
#ifndef PILLION_SOFTMAX16_H
#define PILLION_SOFTMAX16_H

#include "pillion/layers16.h"
#include "pillion/requantize.h"

PILLION_INLINE int32_t pillion_look_up_16(const int16_t *table, int32_t level) {
    const int16_t *const at = table + 256 + (level >> 7);
    return at[0] + (((at[1] - at[0]) * (level & 127) + 64) >> 7);
}

/* A share is an exponential times `inverse` / 2^right, rounded half up. */
typedef struct {
    int32_t inverse, right;
} pillion_softmax_16_scale;

PILLION_INLINE pillion_softmax_16_scale pillion_softmax_16_scale_of(const pillion_softmax_s16_params *p, int32_t sum) {
    int32_t zeros = 0;
    while (((uint32_t)sum << zeros & 0x80000000u) == 0) {
        zeros++;
    }
    const uint32_t mantissa = (((uint32_t)sum << (zeros - 1)) + (1u << 13)) >> 14;
    const int32_t level = (int32_t)mantissa - 98304;
    const pillion_softmax_16_scale scale = {pillion_look_up_16(p->reciprocals, level > 32767 ? 32767 : level), 31 - zeros};
    return scale;
}

#endif
