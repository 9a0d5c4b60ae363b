/* SPDX-License-Identifier: Apache-2.0
 * A function of one number of 16 bits: one load has both ends of a line, and one SMLAD takes them by their shares. A result is the second and third
 * byte of that; two are stored as a word. y may be x. */
#include "dot16.h"

#if PILLION_HAS_DSP

/* A number has two bytes, the lower one first: the place on a line and the line. `middle` is the entry for 0. */
static inline uint32_t on_line(const int16_t *middle, const int16_t **x) {
    int32_t line, shares;
    uint32_t ends;
    __asm volatile("ldrsb %0, [%2, #1]\n\t"
                   "ldrb %1, [%2], #2"
                   : "=&r"(line), "=&r"(shares), "+&r"(*x)
                   :
                   : "memory");
    memcpy(&ends, middle + line, 4);
    __asm("mla %0, %0, %1, %2" : "+r"(shares) : "r"(65535), "r"(256));
    __asm("smlad %0, %1, %0, %2" : "+r"(shares) : "r"(ends), "r"(128));
    return (uint32_t)shares;
}

void pillion_wide_lut_dsp(const pillion_wide_lut_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int16_t *const middle = p->table + 128;
    (void)scratch;
    for (int32_t left = p->count / 2; left > 0; left--) {
        uint32_t two = on_line(middle, &x) >> 8;
        __asm volatile("pkhbt %0, %0, %2, lsl #8\n\t"
                       "str %0, [%1], #4"
                       : "+&r"(two), "+&r"(y)
                       : "r"(on_line(middle, &x))
                       : "memory");
    }
    if (p->count % 2 != 0) {
        *y = (int16_t)(on_line(middle, &x) >> 8);
    }
}
#endif
