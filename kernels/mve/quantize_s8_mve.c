/* SPDX-License-Identifier: Apache-2.0
 * float32 to int8, four at a time: VCVTN rounds ties to even, saturates, and makes nothing of what is not a number; then
 * two saturating narrowings with the zero point between them. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_quantize_s8_mve(const pillion_quantize_s8_mve_params *p, const float *x, int8_t *y, void *scratch) {
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
        "vqmovnb.s32 q0, q0\n"
        "vqadd.s16 q0, q0, %4\n"
        "vqmovnb.s16 q0, q0\n"
        "vstrb.32 q0, [%1], #4\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&r"(x), "+&l"(y)
        : "r"(p->count), "r"(reciprocal.bits), "r"(p->out_zp)
        : "lr", "q0", "cc", "memory");
}

#endif
