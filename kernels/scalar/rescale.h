/* SPDX-License-Identifier: Apache-2.0
 * From sums to int8, without branches: the rounding of pillion/requantize.h for right shifts and sums below 2^30. */
#ifndef PILLION_SCALAR_RESCALE_H
#define PILLION_SCALAR_RESCALE_H

#include "pillion/requantize.h"

/* The instructions of the core: Thumb-2, Thumb-1 (16 bits wide, no long products), or those of another processor, 0. */
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define PILLION_SCALAR_THUMB __ARM_ARCH_ISA_THUMB
#else
#define PILLION_SCALAR_THUMB 0
#endif

/* The assembly to use. It needs more registers than a compiler without optimization leaves free; with Thumb-1, one that optimizes
 * for size offers only the lower eight. Such compilations get C. */
#if !defined(__OPTIMIZE__) || (PILLION_SCALAR_THUMB == 1 && defined(__OPTIMIZE_SIZE__))
#define PILLION_SCALAR_ASSEMBLY 0
#else
#define PILLION_SCALAR_ASSEMBLY PILLION_SCALAR_THUMB
#endif

/* round = (2 * zero point + 1) << (right - 1): half of the lowest result bit, and the zero point; without a right shift as kernels/README.md says. */
typedef struct {
    int32_t round, multiplier, right;
} pillion_scalar_scale;

/* The upper half of value * multiplier + 2^31, for multipliers that are not negative. */
PILLION_INLINE int32_t pillion_scalar_upper(int32_t value, int32_t multiplier) {
#if PILLION_SCALAR_THUMB == 1
    /* No instruction has a product of 64 bits: it is computed from halves. The lower halves are signed, and the middle sum fits. */
    const int32_t low = (int16_t)value, high = ((value >> 15) + 1) >> 1;
    const int32_t m_low = (int16_t)multiplier, m_high = ((multiplier >> 15) + 1) >> 1;
    return high * m_high + ((high * m_low + low * m_high + (low * m_low >> 16) + 0x8000) >> 16);
#else
    return (int32_t)(((int64_t)value * multiplier + INT64_C(0x80000000)) >> 32);
#endif
}

/* A negative number is rounded half away from zero by being one less. */
PILLION_INLINE int8_t pillion_scalar_rescale(int32_t sum, const pillion_scalar_scale *by) {
    const int32_t twice = 2 * sum;
#if PILLION_SCALAR_ASSEMBLY == 2
    int32_t low, high;
    __asm("mov %0, #0x80000000\n\t"
          "add %1, %3, %2, asr #31\n\t"
          "smlal %0, %1, %2, %4\n\t"
          "asr %1, %1, %5\n\t"
          "ssat %1, #8, %1"
          : "=&r"(low), "=&r"(high)
          : "r"(twice), "r"(by->round), "r"(by->multiplier), "r"(by->right));
    return (int8_t)high;
#else
    const int32_t found = (pillion_scalar_upper(twice, by->multiplier) + by->round + (twice >> 31)) >> by->right;
    const int8_t byte = (int8_t)found;
    return byte == found ? byte : (int8_t)(found >> 31 ^ 127);
#endif
}

/* For bounds other than int8's. */
static inline void pillion_scalar_clamp(int8_t *y, int32_t count, int32_t low, int32_t high) {
    if (low == -128 && high == 127) {
        return;
    }
    for (; count > 0; count--, y++) {
        *y = (int8_t)pillion_clamp(*y, low, high);
    }
}

#endif
