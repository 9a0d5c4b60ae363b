/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 5x5, stride 1: four outputs of a row at a time. Per row of the kernel there are four words of inputs
 * (x0 x1) ... (x6 x7) and the weights (w0 w1) (w2 w3), then (w1 w2) (w3 w4): an output that begins at an even column
 * takes the first two words and w4, one that begins at an odd column w0 and the last two.
 * Registers: as depthwise.h says. */
#include "depthwise.h"

#if PILLION_HAS_DSP

#define FOUR(at, s0, s1, s2, s3)     \
    "ldmia.w r0, {r1-r4}\n"                 \
    "ldrd r5, r6, [sp, #" at "]\n"         \
    "smlad r7, r1, r5, " s0 "\n"            \
    "smlatb r8, r1, r5, " s1 "\n"           \
    "smlad r9, r2, r5, " s2 "\n"            \
    "smlatb r10, r2, r5, " s3 "\n"          \
    "smlad r7, r2, r6, r7\n"                \
    "smlad r9, r3, r6, r9\n"                \
    "ldrd r5, r6, [sp, #" at " + 8]\n"          \
    "smlad r8, r2, r5, r8\n"                \
    "smlad r10, r3, r5, r10\n"              \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"                \
    "smlabt r9, r4, r6, r9\n"               \
    "smlad r10, r4, r6, r10\n"
#define TWO(at, s0, s1)              \
    "ldmia.w r0, {r1-r3}\n"                 \
    "ldrd r5, r6, [sp, #" at "]\n"         \
    "smlad r7, r1, r5, " s0 "\n"            \
    "smlatb r8, r1, r5, " s1 "\n"           \
    "smlad r7, r2, r6, r7\n"                \
    "ldrd r5, r6, [sp, #" at " + 8]\n"          \
    "smlad r8, r2, r5, r8\n"                \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"

PILLION_NAKED static void rows(PILLION_UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ROWS_5X5("5x5", "#8"));
}

void pillion_depthwise_5x5_s8_dsp(const pillion_depthwise_5x5_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    PILLION_DSP_METHOD(5x5, pillion_dsp_expand_5x5, rows, 4);
    pillion_dsp_depthwise(p, x, y, scratch, &method_5x5);
}
#endif
