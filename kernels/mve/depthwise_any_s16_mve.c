/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16-bit inputs with any kernel, stride, dilation and padding, eight channels at a time; see wide.h. `taps` has the
 * offset of each tap from the first pixel of a window. A round is two taps; then one tap is left and the results are
 * made.
 * Registers: r2 taps, r3 window, r4 rounds, r5 constants, r6 y, r7 pixels left, r8 least result, r9 and r10 steps of x and y, r11 the
 * state; q4 q5 sums, q0 q1 inputs and weights, q2 q3 products. */
#include "wide.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

PILLION_NAKED static void outputs(PILLION_UNUSED const pillion_mve_wide_state *s) {
    __asm__ volatile(
        "push {r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "vpush {d8, d9, d10, d11}\n"
        "mov r11, r0\n"
        "ldr r0, [r11, #36]\n"
        "vmsr p0, r0\n"
        "add r0, r11, #8\n"
        "ldm r0!, {r3, r4}\n"
        "ldm r0, {r6, r7, r8, r9, r10}\n"
        "1:\n"
        "ldrd r2, r5, [r11]\n"
        "vldrw.u32 q4, [r5], #16\n" /* bias */
        "vldrw.u32 q5, [r5], #16\n"
        "wls lr, r4, 3f\n"
        "2:\n"
        "ldrd r0, r1, [r2], #8\n"
        "adds r0, r3\n"
        "adds r1, r3\n" TAP_16("r0", "], #8") TAP_16("r1", "], #8")
        "le lr, 2b\n"
        "3:\n"
        "ldr r0, [r2]\n"
        "adds r0, r3\n" TAP_16("r0", "], #8") RESULTS_16("0", "16")
        "subs r7, #1\n"
        "bne 1b\n"
        "ldrd r0, r1, [r11, #40]\n"
        "ldr r7, [r11, #20]\n"
        "adds r3, r0\n"
        "subs r1, #1\n"
        "str r1, [r11, #44]\n"
        "bne 1b\n"
        "vpop {d8, d9, d10, d11}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}

void pillion_depthwise_any_s16_mve(const pillion_depthwise_any_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 2, 2, 16};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp_16(y, p->images * p->out_h * p->out_w * p->channels, INT16_MIN, p->high);
}

#endif
