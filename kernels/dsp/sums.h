/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows of four bytes: SXTAB16 adds two bytes of a word to two 16-bit sums, which 255 rows fit. */
#ifndef PILLION_DSP_SUMS_H
#define PILLION_DSP_SUMS_H

#include "pillion/dsp.h"

#include <string.h>

#if PILLION_HAS_DSP

#define MOST_ROWS 255

/* Adds `count` words, c bytes apart, to the sums of bytes 0 and 2 and of bytes 1 and 3. */
static inline void add_rows(const int8_t *x, int32_t count, int32_t c, uint32_t *even, uint32_t *odd) {
    uint32_t s02 = *even, s13 = *odd, a, b;
    const int32_t c3 = 3 * c;
    for (; count >= 4; count -= 4) {
        __asm volatile("ldr %3, [%0]\n\t"
                       "ldr %4, [%0, %5]\n\t"
                       "sxtab16 %1, %1, %3\n\t"
                       "sxtab16 %2, %2, %3, ror #8\n\t"
                       "ldr %3, [%0, %5, lsl #1]\n\t"
                       "sxtab16 %1, %1, %4\n\t"
                       "sxtab16 %2, %2, %4, ror #8\n\t"
                       "ldr %4, [%0, %6]\n\t"
                       "sxtab16 %1, %1, %3\n\t"
                       "sxtab16 %2, %2, %3, ror #8\n\t"
                       "sxtab16 %1, %1, %4\n\t"
                       "sxtab16 %2, %2, %4, ror #8\n\t"
                       "add %0, %0, %5, lsl #2"
                       : "+&r"(x), "+&r"(s02), "+&r"(s13), "=&r"(a), "=&r"(b)
                       : "r"(c), "r"(c3)
                       : "memory");
    }
    for (; count > 0; count--, x += c) {
        memcpy(&a, x, 4);
        __asm("sxtab16 %0, %0, %1" : "+r"(s02) : "r"(a));
        __asm("sxtab16 %0, %0, %1, ror #8" : "+r"(s13) : "r"(a));
    }
    *even = s02, *odd = s13;
}

/* To the sums of 32 bits at places 0 and 2. */
static inline void add_halves(int32_t *sums, uint32_t halves) {
    sums[0] += (int16_t)halves;
    sums[2] += (int32_t)halves >> 16;
}
#endif
#endif
