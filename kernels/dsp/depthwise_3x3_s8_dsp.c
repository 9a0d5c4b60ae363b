/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 1: four outputs of a row at a time. Per row of the kernel there are three words of inputs
 * (x0 x1) (x2 x3) (x4 x5) and two of weights (w0 w1) (w1 w2). An output that begins at an even column is SMLAD with the
 * first and one product more; one that begins at an odd column is one product and SMLAD with the second. */
#include "pillion/assembly.h"
#include "depthwise.h"

#if PILLION_HAS_DSP

/* r0 plane, r1 other rows of it, r2-r4 inputs, r5 r6 weights, r7-r10 sums, r11 pitch, r12 y, lr stride. */
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
#define NEXT_FOUR(row, weights) FOUR(row, weights, "r7", "r8", "r9", "r10")
#define TWO(row, weights, s0, s1)           \
    "ldrd r2, r3, [" row "]\n"              \
    "ldrd r5, r6, [sp, " weights "]\n"      \
    "smlad r7, r2, r5, " s0 "\n"            \
    "smlatb r8, r2, r5, " s1 "\n"           \
    "smlabt r7, r3, r6, r7\n"               \
    "smlad r8, r3, r6, r8\n"

/* The bias goes where the sum is that is written last. */
#define BIAS_OF_FOUR "ldr r10, [sp, #36]\n"
#define BIAS_OF_TWO "ldr r8, [sp, #36]\n"

PILLION_NAKED static void rows(PILLION_UNUSED const pillion_dsp_channel *channel) {
    __asm volatile(PILLION_DSP_ROWS("3x3", "#96", PILLION_DSP_COPY("{r1-r10}") PILLION_DSP_COPY("{r1-r10}"), "#80",
                                    BIAS_OF_FOUR FOUR("r0", "#52", "r10", "r10", "r10", "r10")
                                    "add r1, r0, r11\n" NEXT_FOUR("r1", "#60")
                                    "add r1, r1, r11\n" NEXT_FOUR("r1", "#68"),
                                    BIAS_OF_TWO TWO("r0", "#52", "r8", "r8")
                                    "add r1, r0, r11\n" TWO("r1", "#60", "r7", "r8")
                                    "add r1, r1, r11\n" TWO("r1", "#68", "r7", "r8"),
                                    "#8"));
}

void pillion_depthwise_3x3_s8_dsp(const pillion_depthwise_3x3_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    PILLION_DSP_METHOD(3x3, pillion_dsp_expand_3x3);
    pillion_dsp_depthwise(p, x, y, scratch, &method);
}
#endif
