/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 2, by strips (strips.h).
 *
 * A window of 4x4 makes one output: the kernel lies in q0, with zeros below and on the right; q1 is the factor. Eight outputs side by side
 * are requantized together and written by a scattering store with the offsets in q7. All strips of a channel are made
 * before its outputs: y may be x.
 * Registers: as strips_asm.h says. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "strips_asm.h"

#define WINDOW(sum)            \
    "vldrb.u8 q4, [r1], #8\n"  \
    "vmladav.s8 " sum ", q0, q4\n"

#define WINDOWS(q)                                       \
    WINDOW("r0") WINDOW("r2") WINDOW("r4") WINDOW("r6")  \
    "vmov " q "[2], " q "[0], r0, r4\n"                  \
    "vmov " q "[3], " q "[1], r2, r6\n"

#define NO_LONE_ROW(fix) ""

/* The lanes around the kernel are not loaded, and stay zero. */
#define LOAD_KERNEL       \
    "movw r1, #0x0fff\n"  \
    "vmsr p0, r1\n"       \
    "vpst\n"              \
    "vldrbt.u8 q0, [r4]\n"

/* 2^(31 + r7), r7 being -1 or less */
#define LOAD_FACTOR       \
    "add r0, r7, #31\n"   \
    "movs r2, #1\n"       \
    "lsls r2, r0\n"       \
    "vdup.32 q1, r2\n"

STRIP_OUTPUTS(outputs, LOAD_KERNEL, LOAD_FACTOR, WINDOWS, NO_LONE_ROW, FIX, MULTIPLIED("q1"))
STRIP_OUTPUTS(outputs_relu, LOAD_KERNEL, LOAD_FACTOR, WINDOWS, NO_LONE_ROW, NO_FIX, MULTIPLIED("q1"))

void pillion_depthwise_3x3_stride2_s8_mve(const pillion_depthwise_3x3_stride2_s8_mve_params *p, const int8_t *x,
                                            int8_t *y, void *scratch) {
    pillion_mve_strips(p, x, y, scratch, p->relu ? outputs_relu : outputs);
}

#endif
