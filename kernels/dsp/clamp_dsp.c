/* SPDX-License-Identifier: Apache-2.0
 * Output bounds that saturation does not give, as a pass over the finished output: four bytes in five instructions.
 * SSUB8 sets a flag per byte where the difference is not negative, SEL chooses by these flags. */
#include "dot.h"

#include <string.h>

#if PILLION_HAS_DSP

static inline uint32_t clamp_four(uint32_t y, uint32_t low, uint32_t high) {
    uint32_t unused;
    __asm("ssub8 %1, %0, %2\n\tsel %0, %0, %2\n\tssub8 %1, %3, %0\n\tsel %0, %0, %3"
          : "+&r"(y), "=&r"(unused)
          : "r"(low), "r"(high));
    return y;
}

void pillion_dsp_clamp(int8_t *y, int32_t count, int32_t low, int32_t high) {
    if (low <= INT8_MIN && high >= INT8_MAX) {
        return;
    }
    const uint32_t lows = (uint32_t)(uint8_t)low * 0x01010101u;
    const uint32_t highs = (uint32_t)(uint8_t)high * 0x01010101u;
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        uint32_t four;
        memcpy(&four, y + i, 4);
        four = clamp_four(four, lows, highs);
        memcpy(y + i, &four, 4);
    }
    for (; i < count; i++) {
        y[i] = (int8_t)clamp_four((uint8_t)y[i], lows, highs);
    }
}
#endif
