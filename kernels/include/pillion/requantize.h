/* SPDX-License-Identifier: Apache-2.0
 * Fixed-point rounding, once for all portable kernels. The definition is pillion/ir/numerics.py. */
#ifndef PILLION_REQUANTIZE_H
#define PILLION_REQUANTIZE_H

#include <stdint.h>

/* PILLION_INLINE: a function that is compiled anew wherever it is called with other constants. PILLION_APART: one that
 * is not, because vectors and registers come out better when its loops stand alone. */
#if defined(__GNUC__)
#define PILLION_INLINE static inline __attribute__((always_inline))
#define PILLION_APART static __attribute__((noinline, unused))
#else
#define PILLION_INLINE static inline
#define PILLION_APART static inline
#endif

/* Zeros above the highest 1 of x > 0. */
PILLION_INLINE int32_t pillion_leading_zeros(uint32_t x) {
    int32_t zeros = 0;
#if defined(__GNUC__)
    zeros = __builtin_clz(x);
#else
    for (; !(x >> (31 - zeros)); zeros++) {
    }
#endif
    return zeros;
}

/* value * 2^shift * multiplier / 2^31. A positive shift moves left first and wraps in 32 bits; the multiply rounds
 * half up; a negative shift then divides by a power of two, rounding half away from zero. There are no branches, and
 * of the 64-bit product only the middle 32 bits are used, so that loops over this become vector code. */
PILLION_INLINE int32_t pillion_requantize(int32_t value, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = left - shift;
    const int32_t rounds = right > 1 ? 1 : right;
    const int32_t shifted = (int32_t)((uint32_t)value << left);
    const uint64_t product = (uint64_t)((int64_t)shifted * multiplier) + (UINT64_C(1) << 30);
    int32_t high = (int32_t)(uint32_t)(product >> 31);
    high += (high >> 31) & -rounds; /* half up is half away from zero if negative values are one less */
    return (high >> right) + ((high >> (right - rounds)) & rounds);
}

/* value * multiplier / 2^right, rounded once, half up; 65535 or -65535 where it is beyond that, so that a zero point can be added. */
PILLION_INLINE int32_t pillion_multiply_once(int32_t value, int32_t multiplier, int32_t right) {
    const int64_t scaled = ((int64_t)value * multiplier + ((int64_t)1 << (right - 1))) >> right;
    return (int32_t)(scaled > 65535 ? 65535 : scaled < -65535 ? -65535 : scaled);
}

PILLION_INLINE int32_t pillion_clamp(int32_t value, int32_t low, int32_t high) {
    const int32_t raised = value < low ? low : value;
    return raised > high ? high : raised;
}

/* clamp(value + zp, low, high), without overflow whatever the value. */
PILLION_INLINE int8_t pillion_saturate(int32_t value, int32_t zp, int32_t low, int32_t high) {
    return (int8_t)(pillion_clamp(value, low - zp, high - zp) + zp);
}

#endif
