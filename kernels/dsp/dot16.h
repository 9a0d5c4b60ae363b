/* SPDX-License-Identifier: Apache-2.0
 * What the layers with 16-bit inputs share. Weights come in fours, as bytes in the order 0 2 1 3: SXTB16 makes words of neighbours of them. */
#ifndef PILLION_DSP_DOT16_H
#define PILLION_DSP_DOT16_H

#include "pillion/assembly.h"
#include "pillion/dsp.h"

/* Sums to results: factors are (ratio of scales) * 2^32. */
#define ROUND_16(sum, factor) "smmulr " sum ", " sum ", " factor "\n" "ssat " sum ", #16, " sum "\n"

#if PILLION_HAS_DSP
/* y = clamp(y, low, high), two at a time. */
static inline void pillion_dsp_clamp_16(int16_t *y, int32_t count, int32_t low, int32_t high) {
    if (low <= INT16_MIN && high >= INT16_MAX) {
        return;
    }
    const uint32_t lows = (uint32_t)(low & 0xffff) * 0x10001u, highs = (uint32_t)(high & 0xffff) * 0x10001u;
    for (int32_t i = 0; i < count; i += 2) {
        uint32_t two = (uint16_t)y[i], apart;
        two |= i + 1 < count ? (uint32_t)(uint16_t)y[i + 1] << 16 : 0;
        __asm("ssub16 %1, %0, %2\n"
              "sel %0, %0, %2\n"
              "ssub16 %1, %0, %3\n"
              "sel %0, %3, %0\n"
              : "+r"(two), "=&r"(apart)
              : "r"(lows), "r"(highs));
        y[i] = (int16_t)two;
        if (i + 1 < count) {
            y[i + 1] = (int16_t)(two >> 16);
        }
    }
}
#endif

#endif
