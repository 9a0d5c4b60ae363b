/* SPDX-License-Identifier: Apache-2.0
 * Addition and subtraction as (a * x1 + b * x2 + c) >> shift: the compiler has found a, b and c and has proven for all
 * 65,536 pairs of inputs that this is the answer of the three requantizations that define it. */
#include "dot.h"

#if PILLION_HAS_DSP

#define SUM                       \
    "ldrsb %3, [%0], #1\n\t"      \
    "ldrsb %4, [%1], #1\n\t"      \
    "mla %3, %3, %5, %7\n\t"      \
    "mla %3, %4, %6, %3\n\t"
#define STORE "strb %3, [%2], #1\n\t"
#define ONE SUM "asr %3, %3, %8\n\tssat %3, #8, %3\n\t" STORE
#define ONE_BY_21 SUM "ssat %3, #8, %3, asr #21\n\t" STORE /* the shift that the compiler finds nearly always */

void pillion_sum_s8_dsp(const pillion_sum_s8_dsp_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t a = p->a, b = p->b, c = p->c, shift = p->shift;
    int32_t t, u;
    for (int32_t row = p->rows; row > 0; row--, x2 -= p->count) {
        int32_t left = p->count;
        for (; left >= 4 && shift == 21; left -= 4) {
            __asm volatile(ONE_BY_21 ONE_BY_21 ONE_BY_21 ONE_BY_21
                           : "+&r"(x1), "+&r"(x2), "+&r"(y), "=&r"(t), "=&r"(u)
                           : "r"(a), "r"(b), "r"(c)
                           : "memory");
        }
        for (; left > 0; left--) {
            __asm volatile(ONE
                           : "+&r"(x1), "+&r"(x2), "+&r"(y), "=&r"(t), "=&r"(u)
                           : "r"(a), "r"(b), "r"(c), "r"(shift)
                           : "memory");
        }
    }
    const int32_t bytes = p->rows * p->count;
    pillion_dsp_clamp(y - bytes, bytes, p->low, p->high);
}
#endif
