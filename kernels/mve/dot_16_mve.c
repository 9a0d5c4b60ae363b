/* SPDX-License-Identifier: Apache-2.0
 * Dot products of at most 16 inputs; see dot_16.h. */
#define CHANNEL(q, rounding) LOAD_NUMBERS "vldrw.u32 q4, [r1], #16\n" SUMS(q, "q4") REQUANTIZE_LANES(q, rounding)
#define PAIR(a, b, rounding) CHANNEL(a, rounding) CHANNEL(b, rounding)
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_16.h"

void pillion_mve_dot_16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif
