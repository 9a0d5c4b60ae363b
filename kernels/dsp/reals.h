/* SPDX-License-Identifier: Apache-2.0
 * float32 to integers and back with the processor's own rounding, ties to even, four numbers at a time. What is not a number becomes 0
 * and what is too large the largest integer, so the zero point is added with saturation. Without floating point
 * instructions it is done bit by bit. Files that quantize define SATURATION, the bits of a result, and STORE, which writes one. */
#ifndef PILLION_DSP_REALS_H
#define PILLION_DSP_REALS_H

#include "pillion/dsp.h"
#include "pillion/rounding.h"

#if defined(__ARM_FP) && (__ARM_FP & 4)
#define HAS_FLOATS 1

#define QUANTIZE_FOUR(x, y, reciprocal, out_zp)                        \
    do {                                                               \
        int32_t a, b, c, d;                                            \
        __asm volatile("vldmia %0!, {s0-s3}\n"                         \
                       "vmul.f32 s0, s0, %6\n"                         \
                       "vmul.f32 s1, s1, %6\n"                         \
                       "vmul.f32 s2, s2, %6\n"                         \
                       "vmul.f32 s3, s3, %6\n"                         \
                       "vcvtr.s32.f32 s0, s0\n"                        \
                       "vcvtr.s32.f32 s1, s1\n"                        \
                       "vcvtr.s32.f32 s2, s2\n"                        \
                       "vcvtr.s32.f32 s3, s3\n"                        \
                       "vmov %2, %3, s0, s1\n"                         \
                       "vmov %4, %5, s2, s3\n"                         \
                       "qadd %2, %2, %7\n"                             \
                       "qadd %3, %3, %7\n"                             \
                       "qadd %4, %4, %7\n"                             \
                       "qadd %5, %5, %7\n"                             \
                       "ssat %2, " SATURATION ", %2\n"                 \
                       "ssat %3, " SATURATION ", %3\n"                 \
                       "ssat %4, " SATURATION ", %4\n"                 \
                       "ssat %5, " SATURATION ", %5\n" STORE("%2") STORE("%3") STORE("%4") STORE("%5") \
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d) \
                       : "t"(reciprocal), "r"(out_zp)                  \
                       : "memory", "s0", "s1", "s2", "s3");            \
    } while (0)

/* Files that dequantize define LOAD, which reads an integer. */
#define DEQUANTIZE_FOUR(x, y, scale, in_zp)                            \
    do {                                                               \
        int32_t a, b, c, d;                                            \
        __asm volatile(LOAD("%2") LOAD("%3") LOAD("%4") LOAD("%5")     \
                       "sub %2, %2, %7\n"                              \
                       "sub %3, %3, %7\n"                              \
                       "sub %4, %4, %7\n"                              \
                       "sub %5, %5, %7\n"                              \
                       "vmov s0, s1, %2, %3\n"                         \
                       "vmov s2, s3, %4, %5\n"                         \
                       "vcvt.f32.s32 s0, s0\n"                         \
                       "vcvt.f32.s32 s1, s1\n"                         \
                       "vcvt.f32.s32 s2, s2\n"                         \
                       "vcvt.f32.s32 s3, s3\n"                         \
                       "vmul.f32 s0, s0, %6\n"                         \
                       "vmul.f32 s1, s1, %6\n"                         \
                       "vmul.f32 s2, s2, %6\n"                         \
                       "vmul.f32 s3, s3, %6\n"                         \
                       "vstmia %1!, {s0-s3}"                           \
                       : "+&r"(x), "+&r"(y), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d) \
                       : "t"(scale), "r"(in_zp)                        \
                       : "memory", "s0", "s1", "s2", "s3");            \
    } while (0)

#else
#define HAS_FLOATS 0
#define QUANTIZE_FOUR(x, y, reciprocal, out_zp) (void)0
#define DEQUANTIZE_FOUR(x, y, scale, in_zp) (void)0
#endif

#endif
