/* SPDX-License-Identifier: Apache-2.0
 * y = saturate(x * ratio + out_zp), rounded: the compiler has tried all numbers (emitters/c/families/conversions.py). Eight
 * elements are 9 instructions; fewer are four at a time, the last of them predicated. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_requantize_s16_s8_mve(const pillion_requantize_s16_s8_mve_params *p, const int16_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    int32_t count = p->count;
    __asm__ volatile("lsr lr, %[count], #3\n"
                     "wls lr, lr, 2f\n"
                     "1:\n"
                     "vldrh.u16 q0, [%[x]], #16\n"
                     "vmovlb.s16 q1, q0\n"
                     "vmovlt.s16 q0, q0\n"
                     "vqrdmulh.s32 q1, q1, %[multiplier]\n"
                     "vqrdmulh.s32 q0, q0, %[multiplier]\n"
                     "vqmovnb.s32 q1, q1\n"
                     "vqmovnt.s32 q1, q0\n"
                     "vqadd.s16 q1, q1, %[out_zp]\n"
                     "vqmovnb.s16 q1, q1\n"
                     "vstrb.16 q1, [%[y]], #8\n"
                     "le lr, 1b\n"
                     "2:\n"
                     "and %[count], %[count], #7\n"
                     "wlstp.32 lr, %[count], 4f\n"
                     "3:\n"
                     "vldrh.s32 q0, [%[x]], #8\n"
                     "vqrdmulh.s32 q0, q0, %[multiplier]\n"
                     "vqmovnb.s32 q0, q0\n"
                     "vqadd.s16 q0, q0, %[out_zp]\n"
                     "vqmovnb.s16 q0, q0\n"
                     "vstrb.32 q0, [%[y]], #4\n"
                     "letp lr, 3b\n"
                     "4:\n"
                     : [x] "+&l"(x), [y] "+&l"(y), [count] "+&r"(count)
                     : [multiplier] "r"(p->multiplier), [out_zp] "r"(p->out_zp)
                     : "lr", "q0", "q1", "cc", "memory");
}

#endif
