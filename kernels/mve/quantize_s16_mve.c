/* SPDX-License-Identifier: Apache-2.0
 * float32 to int16, four at a time, as quantize_s8_mve.c. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_quantize_s16_mve(const pillion_quantize_s16_mve_params *p, const float *x, int16_t *y, void *scratch) {
    (void)scratch;
    const union {
        float number;
        uint32_t bits;
    } reciprocal = {p->reciprocal};
    __asm__ volatile(
        "wlstp.32 lr, %2, 2f\n"
        "1: vldrw.u32 q0, [%0], #16\n"
        "vmul.f32 q0, q0, %3\n"
        "vcvtn.s32.f32 q0, q0\n"
        "vqadd.s32 q0, q0, %4\n"
        "vqmovnb.s32 q0, q0\n"
        "vstrh.32 q0, [%1], #8\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(x), "+&l"(y)
        : "r"(p->count), "r"(reciprocal.bits), "r"(p->out_zp)
        : "lr", "q0", "cc", "memory");
}

#endif
