/* SPDX-License-Identifier: Apache-2.0
 * The outputs of a depthwise convolution by 3x3 without dilation, 16 channels at a time, for images that are too small for
 * strips; see wide.h. The nine taps are written out: x has three pointers, and r5, in the middle of the constants of 16
 * channels, reaches all of them. A round is a pixel.
 * Registers: r3 r0 r1 rows of the window, r2 relu, r4 from row to row, r5 constants, r6 y, r7 pixels of a row, r8 zero
 * point or least result, r9 and r10 steps of x and y, r11 the state, r12 1, the number of the sign fix, lr pixels left; q4-q7
 * sums, q0 q1 inputs and weights, q2 q3 products. */
#ifndef PILLION_MVE_WIDE_3X3_H
#define PILLION_MVE_WIDE_3X3_H

#include "wide.h"

#define TWO_TAPS(x0, w0, x1, w1)              \
    "vldrb.u8 q0, [" x0 "]\n"                 \
    "vldrw.u32 q1, [r5, #" w0 "]\n"           \
    "vmullb.s8 q2, q0, q1\n"                  \
    "vmullt.s8 q3, q0, q1\n"                  \
    "vldrb.u8 q0, [" x1 "]\n"                 \
    "vldrw.u32 q1, [r5, #" w1 "]\n"           \
    "vmullb.s8 q0, q0, q1\n"                  \
    "vadd.i16 q2, q2, q0\n"                   \
    "vldrb.u8 q0, [" x1 "]\n"                 \
    "vmullt.s8 q0, q0, q1\n"                  \
    "vadd.i16 q3, q3, q0\n" WIDEN_AND_ADD
#define TAP(x, w)                             \
    "vldrb.u8 q0, [" x "]\n"                  \
    "vldrw.u32 q1, [r5, #" w "]\n"            \
    "vmullb.s8 q2, q0, q1\n"                  \
    "vmullt.s8 q3, q0, q1\n" WIDEN_AND_ADD

/* A function that computes all outputs of a state; `results` computes and stores a pixel's results from its sums. */
#define WIDE_3X3(name, results)                                                              \
    PILLION_NAKED static void name(PILLION_UNUSED const pillion_mve_wide_state *s) {         \
        __asm__ volatile(                                                                    \
            WIDE_BEGIN                                                                       \
            "ldrd r5, r3, [r11, #4]\n"                                                       \
            "adds r5, #160\n"                                                                \
            "add r0, r11, #16\n"                                                             \
            "ldm r0, {r6, r7, r8, r9, r10}\n"                                                \
            "ldrd r2, r4, [r11, #48]\n"                                                      \
            "movs r12, #1\n"                                                                 \
            "1:\n"                                                                           \
            "dls lr, r7\n"                                                                   \
            "2:\n"                                                                           \
            "vldrw.u32 q4, [r5, #-160]\n"                                                    \
            "vldrw.u32 q5, [r5, #-144]\n"                                                    \
            "vldrw.u32 q6, [r5, #-128]\n"                                                    \
            "vldrw.u32 q7, [r5, #-112]\n"                                                    \
            "adds r0, r3, r4\n"                                                              \
            "adds r1, r0, r4\n"                                                              \
            TWO_TAPS("r3", "-96", "r3, #16", "-80")                                          \
            TWO_TAPS("r3, #32", "-64", "r0", "-48")                                          \
            TWO_TAPS("r0, #16", "-32", "r0, #32", "-16")                                     \
            TWO_TAPS("r1", "0", "r1, #16", "16")                                             \
            TAP("r1, #32", "32")                                                             \
            results                                                                          \
            "le lr, 2b\n"                                                                    \
            WIDE_NEXT_ROW);                                                                  \
    }

#endif
