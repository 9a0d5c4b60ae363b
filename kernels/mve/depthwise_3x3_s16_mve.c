/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 of 16-bit inputs, stride 1, by strips (strips.h).
 *
 * A vector is two columns of a strip, and two of them are a window of 4x4 for two outputs side by side: the columns of the kernel lie
 * in q0 and q1 for the left one, in q2 and q3 for the right one, with zeros around. The upper rows of outputs have passes of their own, and so
 * have the lower ones, whose vectors begin one row further down. All strips of a channel are made before its outputs: y may be x.
 * Registers: as strips_asm.h says; q4 q5 columns, q6 q7 sums. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"
#include "strips_asm.h"

/* The outputs of the columns in `left` and of the next two, which become `right`. */
#define WINDOW(left, right, even, odd)        \
    "vldrh.u16 " right ", [r1], #16\n"        \
    "vmladav.s16 " even ", " left ", q0\n"    \
    "vmladava.s16 " even ", " right ", q1\n"  \
    "vmladav.s16 " odd ", " left ", q2\n"     \
    "vmladava.s16 " odd ", " right ", q3\n"
#define WINDOWS(q)                                                      \
    WINDOW("q4", "q5", "r0", "r2") WINDOW("q5", "q4", "r4", "r6")       \
    "vmov " q "[2], " q "[0], r0, r4\n"                                 \
    "vmov " q "[3], " q "[1], r2, r6\n"

/* The lanes around a kernel are not loaded, and stay zero. */
#define LOAD_KERNEL              \
    "vldrb.s16 q0, [r4]\n"       \
    "vldrb.s16 q3, [r4, #4]\n"   \
    "movs r1, #0xff\n"           \
    "vmsr p0, r1\n"              \
    "vpst\n"                     \
    "vldrbt.s16 q1, [r4, #8]\n"  \
    "vpnot\n"                    \
    "vpst\n"                     \
    "vldrbt.s16 q2, [r4, #-4]\n"
#define IS_OF_FOURS              \
    "lsls r0, r0, #30\n"         \
    "bmi 4f\n"
#define BEGIN_ROW "vldrh.u16 q4, [r1], #16\n"

/* Where the pass says so, rounds of four outputs. */
#define FOURS                             \
    "4:\n"                                \
    "mov r0, r11\n"                       \
    "vldrh.u32 q7, [r0, #32]\n"           \
    "5:\n"                                \
    "dls lr, lr\n"                        \
    BEGIN_ROW                             \
    "6:\n"                                \
    WINDOWS("q6")                         \
    "vadd.i32 q6, q6, r3\n"               \
    "vdup.32 q5, r8\n"                    \
    "vqrdmulh.s32 q6, q6, r5\n"           \
    "vmax.s32 q6, q6, q5\n"               \
    "vqmovnb.s32 q6, q6\n"                \
    "vstrh.32 q6, [r9, q7]\n"             \
    "add r9, r10\n"                       \
    "le lr, 6b\n"                         \
    "ldm r11, {r0, r2, lr}\n"             \
    "add r1, r0\n"                        \
    "add r9, r2\n"                        \
    "cmp r1, r12\n"                       \
    "bne 5b\n"                            \
    "b 3b\n"

#define RESULTS INT16_RESULTS("q6", "q7", "vdup.16 q5, r8\n", "q5", "vldrh.u16 q5, [r11, #32]\n", "q5")
STRIP_OUTPUTS(outputs, INT16_NUMBERS, LOAD_KERNEL, IS_OF_FOURS, BEGIN_ROW, ROUND(WINDOWS, "q6", "q7", RESULTS), FOURS)

void pillion_depthwise_3x3_s16_mve(const pillion_depthwise_3x3_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const pillion_mve_strip_kind kind = {outputs, pillion_mve_strips_of_halfwords, 2, 2};
    pillion_mve_strips(p, x, y, scratch, &kind);
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, INT16_MIN, p->high);
}

#endif
