/* SPDX-License-Identifier: Apache-2.0
 * The windows of a depthwise convolution by 3x3 at stride 2, by strips (strips.h): a window of 4x4 makes one output, with the kernel in q0
 * and zeros below and on the right of it.
 * Registers: as strips_asm.h says. */
#ifndef PILLION_MVE_STRIPS_STRIDE2_H
#define PILLION_MVE_STRIPS_STRIDE2_H

#include "strips_asm.h"

#define WINDOW(sum)            \
    "vldrb.u8 q4, [r1], #8\n"  \
    "vmladav.s8 " sum ", q0, q4\n"

#define WINDOWS(q)                                       \
    WINDOW("r0") WINDOW("r2") WINDOW("r4") WINDOW("r6")  \
    "vmov " q "[2], " q "[0], r0, r4\n"                  \
    "vmov " q "[3], " q "[1], r2, r6\n"

/* The lanes around the kernel are not loaded, and stay zero. */
#define LOAD_KERNEL       \
    "movw r1, #0x0fff\n"  \
    "vmsr p0, r1\n"       \
    "vpst\n"              \
    "vldrbt.u8 q0, [r4]\n"

#define STRIP_OUTPUTS_STRIDE2(name, numbers, load_factor, results) \
    STRIP_OUTPUTS(name, numbers, LOAD_KERNEL load_factor, "", "", ROUND(WINDOWS("q5") WINDOWS("q6"), "q5", "q6", results), "")

#endif
