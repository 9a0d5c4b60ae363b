/* SPDX-License-Identifier: Apache-2.0
 * y = saturate((x - in_zp) * ratio), rounded: the compiler has tried all numbers (emitters/c/families/conversions.py). Eight
 * elements are 11 instructions; fewer are four at a time, the last of them predicated. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_requantize_s8_s16_mve(const pillion_requantize_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    int32_t count = p->count;
    __asm__ volatile("lsr lr, %[count], #3\n"
                     "wls lr, lr, 2f\n"
                     "1:\n"
                     "vldrb.s16 q0, [%[x]], #8\n"
                     "vsub.i16 q0, q0, %[in_zp]\n"
                     "vmovlb.s16 q1, q0\n"
                     "vmovlt.s16 q0, q0\n"
                     "vshl.s32 q1, %[left]\n"
                     "vshl.s32 q0, %[left]\n"
                     "vqrdmulh.s32 q1, q1, %[multiplier]\n"
                     "vqrdmulh.s32 q0, q0, %[multiplier]\n"
                     "vqmovnb.s32 q1, q1\n"
                     "vqmovnt.s32 q1, q0\n"
                     "vstrh.16 q1, [%[y]], #16\n"
                     "le lr, 1b\n"
                     "2:\n"
                     "and %[count], %[count], #7\n"
                     "wlstp.32 lr, %[count], 4f\n"
                     "3:\n"
                     "vldrb.s32 q0, [%[x]], #4\n"
                     "vsub.i32 q0, q0, %[in_zp]\n"
                     "vshl.s32 q0, %[left]\n"
                     "vqrdmulh.s32 q0, q0, %[multiplier]\n"
                     "vqmovnb.s32 q0, q0\n"
                     "vstrh.32 q0, [%[y]], #8\n"
                     "letp lr, 3b\n"
                     "4:\n"
                     : [x] "+&l"(x), [y] "+&l"(y), [count] "+&r"(count)
                     : [multiplier] "r"(p->multiplier), [in_zp] "r"(p->in_zp), [left] "r"(p->left)
                     : "lr", "q0", "q1", "cc", "memory");
}

#endif
