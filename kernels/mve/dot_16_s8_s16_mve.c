/* SPDX-License-Identifier: Apache-2.0
 * Dot products of at most 16 inputs with 16-bit results; see dot_16.h. A channel has no shift, and two make a word. */
#define CHANNEL(q)                             \
    "ldm r1!, {r3, r5}\n"                      \
    "vldrw.u32 q4, [r1], #16\n" SUMS(q, "q4")  \
    "vadd.i32 " q ", " q ", r3\n"              \
    "vqrdmulh.s32 " q ", " q ", r5\n"
#define EXACT ""
#define RECTIFIED                              \
    "vmov.i32 q6, #0\n"                        \
    "vmax.s16 q5, q5, q6\n"
#define WORD(bound)                            \
    CHANNEL("q5") CHANNEL("q4")                \
    "vqmovnb.s32 q5, q5\n"                     \
    "vqmovnt.s32 q5, q4\n" bound
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_16.h"

void pillion_mve_dot_16_s8_s16(const pillion_mve_dot_task *d, const int8_t *x, int8_t *y) {
    products(d, x, y);
}

#endif
