/* SPDX-License-Identifier: Apache-2.0
 * The outputs of a depthwise convolution with any kernel, stride, dilation and padding, 16 channels at a time; see wide.h. `taps` has the
 * offset of each tap from the first pixel of a window. A round is two taps; then one tap is left and the results are
 * made.
 * Registers: r2 taps, r3 window, r4 rounds, r5 constants, r6 y, r7 pixels left, r8 zero point or least result, r9 and r10 steps
 * of x and y, r11 the state, r12 1, the number of the sign fix; q4-q7 sums, q0 q1 inputs and weights, q2 q3 products. */
#ifndef PILLION_MVE_WIDE_ANY_H
#define PILLION_MVE_WIDE_ANY_H

#include "wide.h"

/* A function that computes all outputs of a state; `results` computes and stores a pixel's results from its sums. */
#define WIDE_ANY(name, results)                                                              \
    PILLION_NAKED static void name(PILLION_UNUSED const pillion_mve_wide_state *s) {         \
        __asm__ volatile(                                                                    \
            WIDE_BEGIN                                                                       \
            "add r0, r11, #8\n"                                                              \
            "ldm r0!, {r3, r4}\n"                                                            \
            "ldm r0, {r6, r7, r8, r9, r10}\n"                                                \
            "movs r12, #1\n"                                                                 \
            "1:\n"                                                                           \
            "ldrd r2, r5, [r11]\n"                                                           \
            "vldrw.u32 q4, [r5], #16\n"                                                      \
            "vldrw.u32 q5, [r5], #16\n"                                                      \
            "vldrw.u32 q6, [r5], #16\n"                                                      \
            "vldrw.u32 q7, [r5], #16\n"                                                      \
            "wls lr, r4, 3f\n"                                                               \
            "2:\n"                                                                           \
            "ldrd r0, r1, [r2], #8\n"                                                        \
            "adds r0, r3\n"                                                                  \
            "adds r1, r3\n"                                                                  \
            "vldrb.u8 q0, [r0]\n"                                                            \
            "vldrb.u8 q1, [r5], #16\n"                                                       \
            "vmullb.s8 q2, q0, q1\n"                                                         \
            "vmullt.s8 q3, q0, q1\n"                                                         \
            "vldrb.u8 q0, [r1]\n"                                                            \
            "vldrb.u8 q1, [r5], #16\n"                                                       \
            "vmullb.s8 q0, q0, q1\n"                                                         \
            "vadd.i16 q2, q2, q0\n"                                                          \
            "vldrb.u8 q0, [r1]\n"                                                            \
            "vmullt.s8 q0, q0, q1\n"                                                         \
            "vadd.i16 q3, q3, q0\n" WIDEN_AND_ADD                                            \
            "le lr, 2b\n"                                                                    \
            "3:\n"                                                                           \
            "ldr r0, [r2]\n"                                                                 \
            "adds r0, r3\n"                                                                  \
            "vldrb.u8 q0, [r0]\n"                                                            \
            "vldrb.u8 q1, [r5], #16\n"                                                       \
            "vmullb.s8 q2, q0, q1\n"                                                         \
            "vmullt.s8 q3, q0, q1\n" WIDEN_AND_ADD                                           \
            results                                                                          \
            "subs r7, #1\n"                                                                  \
            "bne 1b\n"                                                                       \
            "ldrd r0, r1, [r11, #40]\n"                                                      \
            "ldr r7, [r11, #20]\n"                                                           \
            "adds r3, r0\n"                                                                  \
            "subs r1, #1\n"                                                                  \
            "str r1, [r11, #44]\n"                                                           \
            "bne 1b\n"                                                                       \
            WIDE_RETURN);                                                                    \
    }

#endif
