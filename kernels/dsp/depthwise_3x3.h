/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 1: four outputs of a row at a time. Per row of the kernel there are three words of inputs
 * (x0 x1) (x2 x3) (x4 x5) and two of weights (w0 w1) (w1 w2). An output that begins at an even column is SMLAD with the
 * first and one product more; one that begins at an odd column is one product and SMLAD with the second.
 * Who includes this defines ROWS_NAME, with which the names of the places in the loop begin.
 * Registers: as depthwise.h says. */
#ifndef PILLION_DSP_DEPTHWISE_3X3_H
#define PILLION_DSP_DEPTHWISE_3X3_H

#include "depthwise.h"

#if PILLION_HAS_DSP

#define FOUR(row, weights, s0, s1, s2, s3)  \
    "ldmia.w " row ", {r2-r4}\n"            \
    "ldrd r5, r6, [sp, " weights "]\n"      \
    "smlad r7, r2, r5, " s0 "\n"            \
    "smlatb r8, r2, r5, " s1 "\n"           \
    "smlad r9, r3, r5, " s2 "\n"            \
    "smlatb r10, r3, r5, " s3 "\n"          \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"                \
    "smlabt r9, r4, r6, r9\n"               \
    "smlad r10, r4, r6, r10\n"
#define TWO(row, weights, s0, s1)           \
    "ldrd r2, r3, [" row "]\n"              \
    "ldrd r5, r6, [sp, " weights "]\n"      \
    "smlad r7, r2, r5, " s0 "\n"            \
    "smlatb r8, r2, r5, " s1 "\n"           \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"

PILLION_NAKED static void rows(PILLION_UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ROWS_3X3(PILLION_TEXT(ROWS_NAME), "#8"));
}
#endif

#endif
