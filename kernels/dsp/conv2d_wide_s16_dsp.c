/* SPDX-License-Identifier: Apache-2.0
 * Convolution of 16-bit inputs by weights that have 16 bits in flash, too; see fives.h. A step is 13 instructions for 20 products. */
#define STEP(half) "ldrd r11, lr, [r12], #8\n" half("r11") half("lr")
#define STEP_BYTES 48
#define STEP_WORDS 2
#include "fives.h"

#if PILLION_HAS_DSP
void pillion_conv2d_wide_s16_dsp(const pillion_conv2d_wide_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    convolve(p, x, y, scratch);
}
#endif
