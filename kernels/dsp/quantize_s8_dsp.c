/* SPDX-License-Identifier: Apache-2.0
 * float32 to int8 with the processor's own rounding, ties to even: four numbers at a time. What is not a number becomes 0
 * and what is too large the largest integer, so the zero point is added with saturation. Without floating point
 * instructions it is done bit by bit. */
#include "pillion/dsp.h"
#include "pillion/rounding.h"

#if PILLION_HAS_DSP

static int8_t quantize_one(float x, float reciprocal, int32_t out_zp) {
    return (int8_t)pillion_clamp(pillion_nearest(x * reciprocal, 1) + out_zp, INT8_MIN, INT8_MAX);
}

void pillion_quantize_s8_dsp(const pillion_quantize_s8_dsp_params *p, const float *x, int8_t *y, void *scratch) {
    (void)scratch;
    const float reciprocal = p->reciprocal;
    const int32_t out_zp = p->out_zp;
    int32_t left = p->count;
#if defined(__ARM_FP) && (__ARM_FP & 4)
    for (; left >= 4; left -= 4) {
        int32_t a, b, c, d;
        __asm volatile("vldmia %0!, {s0-s3}\n\t"
                       "vmul.f32 s0, s0, %6\n\t"
                       "vmul.f32 s1, s1, %6\n\t"
                       "vmul.f32 s2, s2, %6\n\t"
                       "vmul.f32 s3, s3, %6\n\t"
                       "vcvtr.s32.f32 s0, s0\n\t"
                       "vcvtr.s32.f32 s1, s1\n\t"
                       "vcvtr.s32.f32 s2, s2\n\t"
                       "vcvtr.s32.f32 s3, s3\n\t"
                       "vmov %2, %3, s0, s1\n\t"
                       "vmov %4, %5, s2, s3\n\t"
                       "qadd %2, %2, %7\n\t"
                       "qadd %3, %3, %7\n\t"
                       "qadd %4, %4, %7\n\t"
                       "qadd %5, %5, %7\n\t"
                       "ssat %2, #8, %2\n\t"
                       "ssat %3, #8, %3\n\t"
                       "ssat %4, #8, %4\n\t"
                       "ssat %5, #8, %5\n\t"
                       "strb %2, [%1], #1\n\t"
                       "strb %3, [%1], #1\n\t"
                       "strb %4, [%1], #1\n\t"
                       "strb %5, [%1], #1"
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                       : "t"(reciprocal), "r"(out_zp)
                       : "memory", "s0", "s1", "s2", "s3");
    }
#endif
    for (; left > 0; left--) {
        *y++ = quantize_one(*x++, reciprocal, out_zp);
    }
}
#endif
