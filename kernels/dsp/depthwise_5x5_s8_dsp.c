/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 5x5, stride 1: four outputs of a row at a time. Per row of the kernel there are four words of inputs
 * (x0 x1) ... (x6 x7) and the weights (w0 w1) (w2 w3), then (w1 w2) (w3 w4): an output that begins at an even column
 * takes the first two words and w4, one that begins at an odd column w0 and the last two. */
#include "asm_function.h"
#include "depthwise.h"

#if PILLION_HAS_DSP

/* r0 plane, r1-r4 inputs, r5 r6 weights, r7-r10 sums, r11 pitch, r12 y, lr stride. */
#define PRODUCTS(even, odd, s0, s1, s2, s3) \
    "ldmia.w r0, {r1-r4}\n"                 \
    "ldrd r5, r6, [sp, " even "]\n"         \
    "smlad r7, r1, r5, " s0 "\n"            \
    "smlatb r8, r1, r5, " s1 "\n"           \
    "smlad r9, r2, r5, " s2 "\n"            \
    "smlatb r10, r2, r5, " s3 "\n"          \
    "smlad r7, r2, r6, r7\n"                \
    "smlad r9, r3, r6, r9\n"                \
    "ldrd r5, r6, [sp, " odd "]\n"          \
    "smlad r8, r2, r5, r8\n"                \
    "smlad r10, r3, r5, r10\n"              \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"                \
    "smlabt r9, r4, r6, r9\n"               \
    "smlad r10, r4, r6, r10\n"
#define NEXT_PRODUCTS(even, odd) "add r0, r0, r11\n" PRODUCTS(even, odd, "r7", "r8", "r9", "r10")

ASM_FUNCTION static void rows(UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ENTER("#144", PILLION_DSP_COPY("{r1-r8}") PILLION_DSP_COPY("{r1-r8}")
                                                 PILLION_DSP_COPY("{r1-r8}") PILLION_DSP_COPY("{r1-r8}"))
                   "ldr r10, [sp, #12]\n" /* the bias, in the sum that is written last */
                   PRODUCTS("#44", "#52", "r10", "r10", "r10", "r10") NEXT_PRODUCTS("#60", "#68")
                   NEXT_PRODUCTS("#76", "#84") NEXT_PRODUCTS("#92", "#100") NEXT_PRODUCTS("#108", "#116")
                   "sub r0, r0, r11, lsl #2\n" PILLION_DSP_LEAVE("#8", "#128"));
}

static void channel_5x5(pillion_dsp_channel *channel) {
    pillion_dsp_expand_5x5(channel);
    rows(channel);
}

void pillion_depthwise_5x5_s8_dsp(const pillion_depthwise_5x5_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    pillion_dsp_depthwise(p, x, y, scratch, channel_5x5);
}
#endif
