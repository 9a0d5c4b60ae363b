/* SPDX-License-Identifier: Apache-2.0
 * Fixed-point rounding, once for all portable kernels. The definition is pillion/ir/numerics.py. */
#ifndef PILLION_REQUANTIZE_H
#define PILLION_REQUANTIZE_H

#include <stdint.h>

/* value * 2^shift * multiplier / 2^31. A positive shift moves left first and wraps in 32 bits; the multiply rounds
 * half up; a negative shift then divides by a power of two, rounding half away from zero. */
static inline int32_t pillion_requantize(int32_t value, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int32_t shifted = (int32_t)((uint32_t)value << left);
    const int32_t high = (int32_t)(((int64_t)shifted * multiplier + (INT64_C(1) << 30)) >> 31);
    if (right == 0) {
        return high;
    }
    /* Half away from zero: a negative value gets one less than half before the floor. */
    const int64_t half = INT64_C(1) << (right - 1);
    return (int32_t)(((int64_t)high + half - (high < 0)) >> right);
}

static inline int32_t pillion_clamp(int32_t value, int32_t low, int32_t high) {
    return value < low ? low : (value > high ? high : value);
}

#endif
