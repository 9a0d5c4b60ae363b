/* SPDX-License-Identifier: Apache-2.0
 * The loop of the dot products for any number of inputs, with sums shifted left before multiplication; see dot.h and dot_asm.h. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
/* The shifts of the even channels, then of the odd ones, beyond 31. */
#define SHIFT_SUMS                      \
    "mov lr, #31\n"                     \
    "vldrb.u32 q2, [r5, #-40]\n"        \
    "vldrb.u32 q3, [r5, #-36]\n"        \
    "vqsub.u32 q2, q2, lr\n"            \
    "vqsub.u32 q3, q3, lr\n"            \
    "vshl.s32 q4, q4, q2\n"             \
    "vshl.s32 q5, q5, q2\n"             \
    "vshl.s32 q0, q0, q3\n"             \
    "vshl.s32 q1, q1, q3\n"
#include "dot_asm.h"

DOT_LOOP(LOAD_GROUP, PIECE, REQUANTIZE_AND_STORE)

void pillion_mve_dot_left(pillion_mve_pairs *s) {
    any_chunks(s);
}

#endif
