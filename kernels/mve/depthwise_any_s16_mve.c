/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16-bit inputs with any kernel, stride, dilation and padding, eight channels at a time; see wide.h. `taps` has the
 * offset of each tap from the first pixel of a window. A round is two taps; then one tap is left and the results are
 * made. Two pixels side by side share the weights; a row ends with one pixel where that is left.
 * Registers: r2 taps, r3 window, r4 rounds, r5 constants, r6 y, r7 pixels of a row, r8 least result, r9 and r10 steps of x and y, r11 the
 * state, r12 pairs of pixels left; q4 q5 sums, q6 q7 those of the second pixel, q0 q1 inputs and weights, q2 q3 products. */
#include "wide.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

/* The window's constants and taps. */
#define BEGIN_PIXEL                    \
    "ldrd r2, r5, [r11]\n"             \
    "vldrw.u32 q4, [r5], #16\n" /* bias */ \
    "vldrw.u32 q5, [r5], #16\n"

/* A tap of a pixel, or of two, x and then the one at r9 from there. */
#define TAP_OF_ONE(x) WEIGHTS_16("], #8") PRODUCTS_16(x, "q4", "q5")
#define TAP_OF_TWO(x) TAP_OF_ONE(x) "add " x ", r9\n" PRODUCTS_16(x, "q6", "q7")

#define SUM_TAPS(tap)                  \
    "wls lr, r4, 3f\n"                 \
    "2:\n"                             \
    "ldrd r0, r1, [r2], #8\n"          \
    "adds r0, r3\n"                    \
    "adds r1, r3\n" tap("r0") tap("r1") \
    "le lr, 2b\n"                      \
    "3:\n"                             \
    "ldr r0, [r2]\n"                   \
    "adds r0, r3\n" tap("r0")

PILLION_NAKED static void outputs(PILLION_UNUSED const pillion_mve_wide_state *s) {
    __asm__ volatile(
        WIDE_BEGIN
        "add r0, r11, #8\n"
        "ldm r0!, {r3, r4}\n"
        "ldm r0, {r6, r7, r8, r9, r10}\n"
        "1:\n"
        "lsrs r12, r7, #1\n"
        "beq 5f\n"
        "4:\n" BEGIN_PIXEL SECOND_SUMS SUM_TAPS(TAP_OF_TWO) RESULTS_OF_TWO_16("0", "16")
        "subs r12, #1\n"
        "bne 4b\n"
        "5:\n"
        "lsls r0, r7, #31\n"
        "beq 6f\n" BEGIN_PIXEL SUM_TAPS(TAP_OF_ONE) RESULTS_16("0", "16")
        "6:\n"
        WIDE_NEXT_ROW);
}

void pillion_depthwise_any_s16_mve(const pillion_depthwise_any_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 2, 2, 16};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp_16(y, p->images * p->out_h * p->out_w * p->channels, INT16_MIN, p->high);
}

#endif
