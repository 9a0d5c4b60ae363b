/* SPDX-License-Identifier: Apache-2.0
 * Dot products of at most 16 inputs with weights of four bits; see dot_16.h. Two channels share 16 bytes, the first in the low halves, whose
 * products are 16 times as large: two instructions more for eight results than with bytes. */
#define PAIR(a, b, rounding)                        \
    "vldrw.u32 q4, [r1], #16\n"                \
    "vshl.i8 " a ", q4, #4\n" SUMS(a, a)       \
    "vshr.s32 " a ", " a ", #4\n"              \
    "vshr.s8 q4, q4, #4\n" SUMS(b, "q4")       \
    LOAD_NUMBERS REQUANTIZE_LANES(a, rounding) LOAD_NUMBERS REQUANTIZE_LANES(b, rounding)
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_16.h"

void pillion_mve_dot_16_4bit(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif
