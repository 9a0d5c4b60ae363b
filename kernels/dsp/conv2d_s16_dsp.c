/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs by weights that are bytes; see fives.h. A step is 15 instructions for 20 products. */
#define STEP(half) "ldr r11, [r12], #4\n" "sxtb16 lr, r11\n" half("lr") "sxtb16 lr, r11, ror #8\n" half("lr")
#define STEP_BYTES 56
#define STEP_WORDS 1
#include "fives.h"

#if PILLION_HAS_DSP
void pillion_conv2d_s16_dsp(const pillion_conv2d_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    convolve(p, x, y, scratch);
}
#endif
