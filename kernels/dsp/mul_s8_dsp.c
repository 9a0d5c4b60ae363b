/* SPDX-License-Identifier: Apache-2.0
 * Product of two tensors: twice (x1 - zp1) * (x2 - zp2), then the requantization of README.md. */
#include "dot.h"

#if PILLION_HAS_DSP

#define ONE                            \
    "ldrsb %3, [%0], #1\n\t"           \
    "ldrsb %4, [%1], #1\n\t"           \
    "sub %3, %3, %5\n\t"               \
    "rsb %4, %6, %4, lsl #1\n\t"       \
    "mul %3, %3, %4\n\t"               \
    "add %4, %7, %3, asr #31\n\t"      \
    "smmlar %3, %3, %8, %4\n\t"        \
    "asr %3, %3, %9\n\t"               \
    "ssat %3, #8, %3\n\t"              \
    "strb %3, [%2], #1\n\t"

void pillion_mul_s8_dsp(const pillion_mul_s8_dsp_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t zp1 = p->zp1, twice_zp2 = 2 * p->zp2, round = p->round, multiplier = p->multiplier, right = p->right;
    int32_t t, u;
    for (int32_t row = p->rows; row > 0; row--, x2 -= p->count) {
        int32_t left = p->count;
        for (; left >= 4; left -= 4) {
            __asm volatile(ONE ONE ONE ONE
                           : "+&r"(x1), "+&r"(x2), "+&r"(y), "=&r"(t), "=&r"(u)
                           : "r"(zp1), "r"(twice_zp2), "r"(round), "r"(multiplier), "r"(right)
                           : "memory");
        }
        for (; left > 0; left--) {
            __asm volatile(ONE
                           : "+&r"(x1), "+&r"(x2), "+&r"(y), "=&r"(t), "=&r"(u)
                           : "r"(zp1), "r"(twice_zp2), "r"(round), "r"(multiplier), "r"(right)
                           : "memory");
        }
    }
    const int32_t bytes = p->rows * p->count;
    pillion_dsp_clamp(y - bytes, bytes, p->low, p->high);
}
#endif
