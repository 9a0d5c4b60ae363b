/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 of 16-bit inputs, stride 2, by strips (strips.h).
 *
 * A vector is two columns of a strip, and two of them are a window of 4x4 for one output: the columns of the kernel lie in q0 and q1, with
 * zeros below and on the right. y may be x: strips.h says why.
 * Registers: as strips_asm.h says; q2 the least result, q3 q4 columns. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"
#include "strips_asm.h"

/* The output of the columns in `left` and of the next two, which become `right`. */
#define WINDOW(left, right, sum)             \
    "vldrh.u16 " right ", [r1], #16\n"       \
    "vmladav.s16 " sum ", " left ", q0\n"    \
    "vmladava.s16 " sum ", " right ", q1\n"
#define WINDOWS(q)                                              \
    WINDOW("q4", "q3", "r0") WINDOW("q3", "q4", "r2")           \
    WINDOW("q4", "q3", "r4") WINDOW("q3", "q4", "r6")           \
    "vmov " q "[2], " q "[0], r0, r4\n"                         \
    "vmov " q "[3], " q "[1], r2, r6\n"

/* The lanes on the right of a kernel are not loaded, and stay zero. */
#define LOAD_KERNEL              \
    "vdup.16 q2, r8\n"           \
    "vldrb.s16 q0, [r4]\n"       \
    "movs r1, #0xff\n"           \
    "vmsr p0, r1\n"              \
    "vpst\n"                     \
    "vldrbt.s16 q1, [r4, #8]\n"

#define AT_LEAST_Q2(q) "vmax.s16 " q ", " q ", q2\n"
#define RESULTS INT16_RESULTS("q5", "q6", AT_LEAST_Q2, "", "q7")
STRIP_OUTPUTS(outputs, INT16_NUMBERS, LOAD_KERNEL, "", "vldrh.u16 q4, [r1], #16\n", ROUND(WINDOWS("q5") WINDOWS("q6"), "q5", "q6", RESULTS), "")

void pillion_depthwise_3x3_stride2_s16_mve(const pillion_depthwise_3x3_stride2_s16_mve_params *p, const int16_t *x, int16_t *y,
                                           void *scratch) {
    pillion_mve_strips_of_halfwords(p, x, y, scratch, outputs);
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, INT16_MIN, p->high);
}

#endif
