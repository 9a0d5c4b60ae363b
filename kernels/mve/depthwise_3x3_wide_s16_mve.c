/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 without dilation, of 16-bit inputs, eight channels at a time, for images that are too small for
 * strips; see wide.h. The nine taps are written out: x has three pointers, and r5, in the middle of the constants of eight
 * channels, reaches all of them. A round is two pixels side by side, which share the weights; a row ends with one pixel where that is left.
 * Registers: r3 r0 r1 rows of the window, r2 that of the second pixel, r4 from row to row, r5 constants, r6 y, r7 pixels of a row, r8 least
 * result, r9 and r10 steps of x and y, r11 the state, lr pairs of pixels left; q4 q5 sums, q6 q7 those of the second pixel, q0 q1 inputs and
 * weights, q2 q3 products. */
#include "wide.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

#define TAP_OF_ONE(x, column, w) WEIGHTS_16(", #" w "]") PRODUCTS_16(x column, "q4", "q5")
#define TAP_OF_TWO(x, column, w) TAP_OF_ONE(x, column, w) PRODUCTS_16("r2" column, "q6", "q7")
#define ROW_OF_ONE(x, w0, w1, w2) TAP_OF_ONE(x, "", w0) TAP_OF_ONE(x, ", #16", w1) TAP_OF_ONE(x, ", #32", w2)
#define ROW_OF_TWO(x, w0, w1, w2) \
    "add r2, " x ", r9\n" TAP_OF_TWO(x, "", w0) TAP_OF_TWO(x, ", #16", w1) TAP_OF_TWO(x, ", #32", w2)
#define SUM_ROWS(row) row("r3", "-32", "-24", "-16") row("r0", "-8", "0", "8") row("r1", "16", "24", "32")
#define BEGIN_PIXEL                        \
    "vldrw.u32 q4, [r5, #-64]\n" /* bias */ \
    "vldrw.u32 q5, [r5, #-48]\n"           \
    "adds r0, r3, r4\n"                    \
    "adds r1, r0, r4\n"

PILLION_NAKED static void outputs(PILLION_UNUSED const pillion_mve_wide_state *s) {
    __asm__ volatile(
        WIDE_BEGIN
        "ldrd r5, r3, [r11, #4]\n"
        "adds r5, #64\n"
        "add r0, r11, #16\n"
        "ldm r0, {r6, r7, r8, r9, r10}\n"
        "ldr r4, [r11, #52]\n"
        "1:\n"
        "lsrs r0, r7, #1\n"
        "wls lr, r0, 3f\n"
        "2:\n" BEGIN_PIXEL SECOND_SUMS SUM_ROWS(ROW_OF_TWO) RESULTS_OF_TWO_16("40", "56")
        "le lr, 2b\n"
        "3:\n"
        "lsls r0, r7, #31\n"
        "beq.w 4f\n" BEGIN_PIXEL SUM_ROWS(ROW_OF_ONE) RESULTS_16("40", "56")
        "4:\n"
        WIDE_NEXT_ROW);
}

void pillion_depthwise_3x3_wide_s16_mve(const pillion_depthwise_3x3_wide_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 2, 2, 16};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp_16(y, p->images * p->out_h * p->out_w * p->channels, INT16_MIN, p->high);
}

#endif
