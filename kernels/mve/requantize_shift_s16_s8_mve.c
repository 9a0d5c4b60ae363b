/* SPDX-License-Identifier: Apache-2.0
 * y = saturate((x >> shift) + out_zp), rounded half up, where a step of y is a power of two of x's. VQRDMLASH multiplies by 2^(15 - shift) and adds
 * the zero point. Sixteen elements are 8 instructions: even and odd ones lie in two vectors; the rest are eight at a time, the last of them
 * predicated. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_requantize_shift_s16_s8_mve(const pillion_requantize_shift_s16_s8_mve_params *p, const int16_t *x, int8_t *y,
                                         void *scratch) {
    (void)scratch;
    int32_t count = p->count;
    __asm__ volatile("vdup.16 q2, %[factor]\n"
                     "lsr lr, %[count], #4\n"
                     "wls lr, lr, 2f\n"
                     "1:\n"
                     "vld20.16 {q0, q1}, [%[x]]\n"
                     "vld21.16 {q0, q1}, [%[x]]!\n"
                     "vqrdmlash.s16 q0, q2, %[out_zp]\n"
                     "vqrdmlash.s16 q1, q2, %[out_zp]\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vqmovnt.s16 q0, q1\n"
                     "vstrb.8 q0, [%[y]], #16\n"
                     "le lr, 1b\n"
                     "2:\n"
                     "and %[count], %[count], #15\n"
                     "wlstp.16 lr, %[count], 4f\n"
                     "3:\n"
                     "vldrh.u16 q0, [%[x]], #16\n"
                     "vqrdmlash.s16 q0, q2, %[out_zp]\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vstrb.16 q0, [%[y]], #8\n"
                     "letp lr, 3b\n"
                     "4:\n"
                     : [x] "+&l"(x), [y] "+&l"(y), [count] "+&r"(count)
                     : [factor] "r"(p->factor), [out_zp] "r"(p->out_zp)
                     : "lr", "q0", "q1", "q2", "cc", "memory");
}

#endif
