/* SPDX-License-Identifier: Apache-2.0
 * Eight elements are 28 instructions. */
#include "conversions.h"

#if PILLION_HAS_DSP
#define TWO                                                                            \
    "ldr %[two], [%[x]], #4\n" CONVERT("b", "8", "%[level]", "%[two]")                 \
    "strb %[level], [%[y]], #1\n" CONVERT("t", "8", "%[level]", "%[two]")              \
    "strb %[level], [%[y]], #1\n"

void pillion_requantize_s16_s8_dsp(const pillion_requantize_s16_s8_dsp_params *p, const int16_t *x, int8_t *y, void *scratch) {
    int32_t left = p->count, two, level;
    (void)scratch;
    for (; left >= 8; left -= 8) {
        __asm volatile(TWO TWO TWO TWO
                       : [x] "+&r"(x), [y] "+&r"(y), [two] "=&r"(two), [level] "=&r"(level)
                       : [m] "r"(p->multiplier), [c] "r"(p->constant)
                       : "memory");
    }
    for (; left > 0; left--) {
        level = *x++;
        CONVERT_ONE("8", level);
        *y++ = (int8_t)level;
    }
}
#endif
