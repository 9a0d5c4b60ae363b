/* SPDX-License-Identifier: Apache-2.0
 * Elements of 8 or 16 bits, as the kernels with wide operands read and write them. */
#ifndef PILLION_WIDE_H
#define PILLION_WIDE_H

#include <stdint.h>

#include "pillion/requantize.h"

PILLION_INLINE int32_t pillion_element(const void *x, int32_t bytes, int32_t at) {
    return bytes == 2 ? ((const int16_t *)x)[at] : ((const int8_t *)x)[at];
}

/* y[at] = clamp(level, low, high) */
PILLION_INLINE void pillion_put(void *y, int32_t bytes, int32_t at, int64_t level, int32_t low, int32_t high) {
    const int32_t held = level > high ? high : level < low ? low : (int32_t)level;
    if (bytes == 2) {
        ((int16_t *)y)[at] = (int16_t)held;
    } else {
        ((int8_t *)y)[at] = (int8_t)held;
    }
}

#endif
