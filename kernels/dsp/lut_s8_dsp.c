/* SPDX-License-Identifier: Apache-2.0
 * Any function of one int8 number, from a table; eight at a time. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

#define FOUR                        \
    "ldrb %2, [%0], #1\n\t"         \
    "ldrb %3, [%0], #1\n\t"         \
    "ldrb %4, [%0], #1\n\t"         \
    "ldrb %5, [%0], #1\n\t"         \
    "ldrb %2, [%6, %2]\n\t"         \
    "ldrb %3, [%6, %3]\n\t"         \
    "ldrb %4, [%6, %4]\n\t"         \
    "ldrb %5, [%6, %5]\n\t"         \
    "strb %2, [%1], #1\n\t"         \
    "strb %3, [%1], #1\n\t"         \
    "strb %4, [%1], #1\n\t"         \
    "strb %5, [%1], #1\n\t"

void pillion_lut_s8_dsp(const pillion_lut_s8_dsp_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int8_t *const table = p->table;
    int32_t left = p->count, a, b, c, d;
    for (; left >= 8; left -= 8) {
        __asm volatile(FOUR FOUR
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "r"(table)
                       : "memory");
    }
    for (; left > 0; left--) {
        *y++ = table[(uint8_t)*x++];
    }
}
#endif
