/* SPDX-License-Identifier: Apache-2.0
 * The windows of a depthwise convolution by 3x3 at stride 1, by strips (strips.h).
 *
 * A window of 4x4 makes four outputs: the kernel lies in q0 to q3 at its four places in the window, with zeros around
 * (lanes that a predicate keeps from being loaded), and four VMLADAV are 36 products each. Where the last strip has one row of
 * outputs, four windows make two outputs each. The lanes of the lower row come first: where there is none, they go where those of
 * the upper row go after them.
 * Registers: as strips_asm.h says. */
#ifndef PILLION_MVE_STRIPS_STRIDE1_H
#define PILLION_MVE_STRIPS_STRIDE1_H

#include "strips_asm.h"

#define WINDOWS(q)                       \
    "vldrb.u8 q4, [r1], #8\n"            \
    "vmladav.s8 r0, q0, q4\n"            \
    "vmladav.s8 r2, q1, q4\n"            \
    "vmladav.s8 r4, q2, q4\n"            \
    "vmladav.s8 r6, q3, q4\n"            \
    "vmov " q "[2], " q "[0], r0, r4\n"  \
    "vmov " q "[3], " q "[1], r2, r6\n"

/* The outputs of the upper row. */
#define UPPER_WINDOW(even, odd)          \
    "vldrb.u8 q4, [r1], #8\n"            \
    "vmladav.s8 " even ", q2, q4\n"      \
    "vmladav.s8 " odd ", q3, q4\n"
#define UPPER_WINDOWS(q)                                \
    UPPER_WINDOW("r0", "r2") UPPER_WINDOW("r4", "r6")   \
    "vmov " q "[2], " q "[0], r0, r4\n"                 \
    "vmov " q "[3], " q "[1], r2, r6\n"
/* Where the pass says so, a row of its own. */
#define IS_LONE             \
    "lsls r0, r0, #30\n"    \
    "bmi 4f\n"
#define LONE_ROW(results)                               \
    "4:\n"                                              \
    "dls lr, lr\n"                                      \
    "5:\n" ROUND(UPPER_WINDOWS("q5") UPPER_WINDOWS("q6"), "q5", "q6", results)    \
    "le lr, 5b\n"                                       \
    "b 3b\n"

/* The lanes around a kernel are not loaded, and stay zero. */
#define LOAD_KERNEL              \
    "movw r1, #0x0fff\n"         \
    "vmsr p0, r1\n"              \
    "vpstt\n"                    \
    "vldrbt.u8 q0, [r4, #-1]\n"  \
    "vldrbt.u8 q2, [r4]\n"       \
    "movw r1, #0xfff0\n"         \
    "vmsr p0, r1\n"              \
    "vpstt\n"                    \
    "vldrbt.u8 q1, [r4, #-5]\n"  \
    "vldrbt.u8 q3, [r4, #-4]\n"

#define STRIP_OUTPUTS_STRIDE1(name, numbers, results) \
    STRIP_OUTPUTS(name, numbers, LOAD_KERNEL, IS_LONE, "", ROUND(WINDOWS("q5") WINDOWS("q6"), "q5", "q6", results), LONE_ROW(results))

#endif
