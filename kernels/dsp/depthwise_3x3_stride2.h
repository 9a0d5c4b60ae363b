/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 2: four outputs of a row at a time. Per row of the kernel there are five words of inputs, the
 * last two in the place of the first, and two words of weights (w0 w1) (w1 w2): an output is SMLAD with a word of inputs
 * and one product with the next.
 * Who includes this defines ROWS_NAME, with which the names of the places in the loop begin.
 * Registers: as depthwise.h says. */
#ifndef PILLION_DSP_DEPTHWISE_3X3_STRIDE2_H
#define PILLION_DSP_DEPTHWISE_3X3_STRIDE2_H

#include "depthwise.h"

#if PILLION_HAS_DSP

#define FOUR(row, weights, s0, s1, s2, s3)  \
    "ldmia.w " row ", {r2-r4}\n"            \
    "ldrd r5, r6, [sp, " weights "]\n"      \
    "smlad r7, r2, r5, " s0 "\n"            \
    "smlad r8, r3, r5, " s1 "\n"            \
    "smlad r9, r4, r5, " s2 "\n"            \
    "smlabt r7, r3, r6, r7\n"               \
    "smlabt r8, r4, r6, r8\n"               \
    "ldrd r2, r3, [" row ", #12]\n"         \
    "smlad r10, r2, r5, " s3 "\n"           \
    "smlabt r9, r2, r6, r9\n"               \
    "smlabt r10, r3, r6, r10\n"
#define TWO(row, weights, s0, s1)           \
    "ldmia.w " row ", {r2-r4}\n"            \
    "ldrd r5, r6, [sp, " weights "]\n"      \
    "smlad r7, r2, r5, " s0 "\n"            \
    "smlad r8, r3, r5, " s1 "\n"            \
    "smlabt r7, r3, r6, r7\n"               \
    "smlabt r8, r4, r6, r8\n"

PILLION_NAKED static void rows(PILLION_UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ROWS_3X3(PILLION_TEXT(ROWS_NAME), "#16"));
}
#endif

#endif
