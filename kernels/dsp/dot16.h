/* SPDX-License-Identifier: Apache-2.0
 * What the layers with 16-bit inputs share. Weights come in fours, as bytes in the order 0 2 1 3: SXTB16 makes words of neighbours of them. */
#ifndef PILLION_DSP_DOT16_H
#define PILLION_DSP_DOT16_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"
#include "pillion/requantize.h"

#include <string.h>

/* Sums to results: factors are (ratio of scales) * 2^32. Unsigned saturation to 15 bits is a clamp from 0 on for free. */
#define ROUND_16(saturate, sum, factor) "smmulr " sum ", " sum ", " factor "\n" saturate(sum)
#define SIGNED(sum) "ssat " sum ", #16, " sum "\n"
#define RECTIFIED(sum) "usat " sum ", #15, " sum "\n"
static inline int32_t pillion_dsp_is_rectified(int32_t low, int32_t high) {
    return low == 0 && high == INT16_MAX;
}

#if PILLION_HAS_DSP
/* y = clamp(x, low, high), two at a time; y may be x. */
static inline void pillion_dsp_clamp_to(int16_t *y, const int16_t *x, int32_t count, int32_t low, int32_t high) {
    const uint32_t lows = (uint32_t)(low & 0xffff) * 0x10001u, highs = (uint32_t)(high & 0xffff) * 0x10001u;
    for (; count > 1; count -= 2, x += 2, y += 2) {
        uint32_t two, apart;
        memcpy(&two, x, 4);
        __asm("ssub16 %1, %0, %2\n"
              "sel %0, %0, %2\n"
              "ssub16 %1, %0, %3\n"
              "sel %0, %3, %0\n"
              : "+&r"(two), "=&r"(apart)
              : "r"(lows), "r"(highs));
        memcpy(y, &two, 4);
    }
    if (count > 0) {
        *y = (int16_t)pillion_clamp(*x, low, high);
    }
}

/* The fused output range, in place, after saturation to 16 bits. */
static inline void pillion_dsp_clamp_16(int16_t *y, int32_t count, int32_t low, int32_t high) {
    if (low > INT16_MIN || high < INT16_MAX) {
        pillion_dsp_clamp_to(y, y, count, low, high);
    }
}
#endif

#endif
