/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs by weights of four bits; see fives.h. Weights are the upper halves of bytes, so that sums are 16 times as
 * large. A step is 34 instructions for 40 products. Registers: r0-r12, lr as there; lr two weights. */
#define WEIGHTS(half, turn) "and lr, r11, #0xf0f0f0f0\n" "sxtb16 lr, lr" turn "\n" half("lr")
#define STEP(half) "ldr r11, [r12], #4\n" WEIGHTS(half, "") WEIGHTS(half, ", ror #8") "lsl r11, r11, #4\n" WEIGHTS(half, "") WEIGHTS(half, ", ror #8")
#define STEP_BYTES 128
#define STEP_WORDS 1
#define STEP_FOURS 2
#include "fives.h"

#if PILLION_HAS_DSP
void pillion_conv2d_s16_s4_dsp(const pillion_conv2d_s16_s4_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    convolve(p, x, y, scratch);
}
#endif
