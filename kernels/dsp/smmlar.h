/* SPDX-License-Identifier: Apache-2.0
 * Requantization of a sum in four instructions, where C code does it. */
#ifndef PILLION_DSP_SMMLAR_H
#define PILLION_DSP_SMMLAR_H

#include "pillion/dsp.h"

#if PILLION_HAS_DSP
/* From twice the sum; round = (2 * out_zp + 1) << (right - 1), or of no right shift as README.md says. */
static inline int32_t pillion_dsp_requantize(int32_t twice, int32_t round, int32_t multiplier, int32_t right) {
    int32_t y = round + (twice >> 31);
    __asm("smmlar %0, %1, %2, %0" : "+r"(y) : "r"(twice), "r"(multiplier));
    y >>= right;
    __asm("ssat %0, #8, %0" : "+r"(y));
    return y;
}
#endif
#endif
