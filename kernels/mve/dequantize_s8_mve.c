/* SPDX-License-Identifier: Apache-2.0
 * int8 to float32, four at a time. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_dequantize_s8_mve(const pillion_dequantize_s8_mve_params *p, const int8_t *x, float *y, void *scratch) {
    (void)scratch;
    const union {
        float number;
        uint32_t bits;
    } scale = {p->scale};
    __asm__ volatile(
        "wlstp.32 lr, %2, 2f\n"
        "1: vldrb.s32 q0, [%0], #4\n"
        "vsub.i32 q0, q0, %4\n"
        "vcvt.f32.s32 q0, q0\n"
        "vmul.f32 q0, q0, %3\n"
        "vstrw.32 q0, [%1], #16\n"
        "letp lr, 1b\n"
        "2:\n"
        : "+&l"(x), "+&r"(y)
        : "r"(p->count), "r"(scale.bits), "r"(p->in_zp)
        : "lr", "q0", "cc", "memory");
}

#endif
