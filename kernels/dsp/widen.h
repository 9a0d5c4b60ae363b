/* SPDX-License-Identifier: Apache-2.0
 * Bytes to 16 bits: of every four a word with the first and the third, then one with the others. */
#ifndef PILLION_DSP_WIDEN_H
#define PILLION_DSP_WIDEN_H

#include "pillion/dsp.h"

#if PILLION_HAS_DSP
static inline void pillion_dsp_widen_four(int32_t *to, uint32_t four) {
    __asm("sxtb16 %0, %1" : "=r"(to[0]) : "r"(four));
    __asm("sxtb16 %0, %1, ror #8" : "=r"(to[1]) : "r"(four));
}

/* Rounds of eight neighbouring bytes, at least one; `to` is aligned to 4 bytes. */
static inline void pillion_dsp_widen_eights(const int8_t *from, int32_t rounds, int32_t *to) {
    int32_t four, even, odd;
    __asm volatile("1:\n"
                   "ldr %[four], [%[from]], #4\n"
                   "sxtb16 %[even], %[four]\n"
                   "sxtb16 %[odd], %[four], ror #8\n"
                   "strd %[even], %[odd], [%[to]], #8\n"
                   "ldr %[four], [%[from]], #4\n"
                   "sxtb16 %[even], %[four]\n"
                   "sxtb16 %[odd], %[four], ror #8\n"
                   "strd %[even], %[odd], [%[to]], #8\n"
                   "subs %[rounds], %[rounds], #1\n"
                   "bne 1b\n"
                   : [from] "+r"(from), [rounds] "+r"(rounds), [to] "+r"(to), [four] "=&r"(four), [even] "=&r"(even),
                     [odd] "=&r"(odd)
                   :
                   : "cc", "memory");
}

/* So many times the sum of numbers of 16 bits, in fours, at least one; x is aligned to 4 bytes. */
static inline int32_t pillion_dsp_sum_words(const int32_t *x, int32_t fours, int32_t times) {
    int32_t sum = 0, first, second;
    __asm volatile("1:\n"
                   "ldrd %[first], %[second], [%[x]], #8\n"
                   "smlad %[sum], %[first], %[times], %[sum]\n"
                   "smlad %[sum], %[second], %[times], %[sum]\n"
                   "subs %[fours], #1\n"
                   "bne 1b\n"
                   : [sum] "+&r"(sum), [x] "+&r"(x), [fours] "+&r"(fours), [first] "=&r"(first), [second] "=&r"(second)
                   : [times] "r"(0x10001 * times)
                   : "cc", "memory");
    return sum;
}
#endif
#endif
