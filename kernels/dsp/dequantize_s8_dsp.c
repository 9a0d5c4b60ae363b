/* SPDX-License-Identifier: Apache-2.0
 * int8 to float32, four numbers at a time where there are floating point instructions. */
#include "pillion/dsp.h"

#if PILLION_HAS_DSP

void pillion_dequantize_s8_dsp(const pillion_dequantize_s8_dsp_params *p, const int8_t *x, float *y, void *scratch) {
    (void)scratch;
    const float scale = p->scale;
    const int32_t in_zp = p->in_zp;
    int32_t left = p->count;
#if defined(__ARM_FP) && (__ARM_FP & 4)
    for (; left >= 4; left -= 4) {
        int32_t a, b, c, d;
        __asm volatile("ldrsb %2, [%0], #1\n\t"
                       "ldrsb %3, [%0], #1\n\t"
                       "ldrsb %4, [%0], #1\n\t"
                       "ldrsb %5, [%0], #1\n\t"
                       "sub %2, %2, %7\n\t"
                       "sub %3, %3, %7\n\t"
                       "sub %4, %4, %7\n\t"
                       "sub %5, %5, %7\n\t"
                       "vmov s0, s1, %2, %3\n\t"
                       "vmov s2, s3, %4, %5\n\t"
                       "vcvt.f32.s32 s0, s0\n\t"
                       "vcvt.f32.s32 s1, s1\n\t"
                       "vcvt.f32.s32 s2, s2\n\t"
                       "vcvt.f32.s32 s3, s3\n\t"
                       "vmul.f32 s0, s0, %6\n\t"
                       "vmul.f32 s1, s1, %6\n\t"
                       "vmul.f32 s2, s2, %6\n\t"
                       "vmul.f32 s3, s3, %6\n\t"
                       "vstmia %1!, {s0-s3}"
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "t"(scale), "r"(in_zp)
                       : "memory", "s0", "s1", "s2", "s3");
    }
#endif
    for (; left > 0; left--) {
        *y++ = (float)(*x++ - in_zp) * scale;
    }
}
#endif
