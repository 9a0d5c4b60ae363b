/* SPDX-License-Identifier: Apache-2.0
 * A byte is the upper half of a halfword: those with even numbers are shifted there, those with odd ones are there. Four elements are 16
 * instructions. */
#include "conversions.h"

#if PILLION_HAS_DSP
#define FOUR                                                                                               \
    "ldr %[odd], [%[x]], #4\n"                                                                             \
    "and %[even], %[mask], %[odd], lsl #8\n"                                                               \
    "and %[odd], %[odd], %[mask]\n" CONVERT("b", "16", "%[first]", "%[even]") CONVERT("b", "16", "%[level]", "%[odd]") \
    "pkhbt %[first], %[first], %[level], lsl #16\n"                                                        \
    "str %[first], [%[y]], #4\n" CONVERT("t", "16", "%[first]", "%[even]") CONVERT("t", "16", "%[level]", "%[odd]") \
    "pkhbt %[first], %[first], %[level], lsl #16\n"                                                        \
    "str %[first], [%[y]], #4\n"

void pillion_requantize_s8_s16_dsp(const pillion_requantize_s8_s16_dsp_params *p, const int8_t *x, int16_t *y, void *scratch) {
    int32_t left = p->count, even, odd, first, level;
    (void)scratch;
    for (; left >= 8; left -= 8) {
        __asm volatile(FOUR FOUR
                       : [x] "+&r"(x), [y] "+&r"(y), [even] "=&r"(even), [odd] "=&r"(odd), [first] "=&r"(first), [level] "=&r"(level)
                       : [m] "r"(p->multiplier), [c] "r"(p->constant), [mask] "r"(0xff00ff00u)
                       : "memory");
    }
    for (; left > 0; left--) {
        level = (int32_t)((uint32_t)*x++ << 8);
        CONVERT_ONE("16", level);
        *y++ = (int16_t)level;
    }
}
#endif
