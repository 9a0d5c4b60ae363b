/* SPDX-License-Identifier: Apache-2.0
 * The work of a loop of dot products per group of channels; see dot_asm.h. */
#include "dot.h"

#if defined(__ARM_FEATURE_MVE)
#include "dot_asm.h"

/* Called from the text of the loops alone: r2 signs, r5 constants, r11 the state; takes r4 and q0 to q2 away. Loads the
 * multipliers and makes the factors. */
PILLION_NAKED void pillion_mve_dot_group(void) {
    __asm__ volatile(
        "vldrb.s32 q0, [r5, #-40]\n"
        "vldrb.s32 q1, [r5, #-36]\n"
        "vmov.i32 q2, #1\n"
        "vqshl.s32 q0, q2, q0\n" /* 2^31 - 1 for no right shift */
        "vqshl.s32 q1, q2, q1\n"
        "and r4, r2, #1\n" /* PILLION_MVE_FACTORS_FIX */
        "vqadd.s32 q0, q0, r4\n"
        "vqadd.s32 q1, q1, r4\n"
        "vstrw.32 q0, [r11, #100]\n"
        "vstrw.32 q1, [r11, #116]\n"
        "vldrw.u32 q6, [r5, #-32]\n"
        "vldrw.u32 q7, [r5, #-16]\n"
        "bx lr\n");
}

#endif
