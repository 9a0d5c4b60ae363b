/* SPDX-License-Identifier: Apache-2.0
 * Bilinear resizing in float32, four channels at a time: the pixels of a run mix the same four numbers, each in shares of
 * its own. Products and sums are the reference's, in its order, without fusing. A store takes the lowest byte of a lane, where the
 * direction of the offset of 128 between int8 and uint8 does not matter. */
#ifndef PILLION_BILINEAR_FLOAT_MVE_H
#define PILLION_BILINEAR_FLOAT_MVE_H

#include "pillion/between_rows.h"
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)

typedef pillion_resize_bilinear_float_s8_mve_params params;

/* The shares of two rows, the bytes from one column to the other, and the pixels between them. */
typedef struct {
    float upper, lower;
    int32_t across;
    int32_t count;
} places;

/* All channels of these pixels, from `top` and `bottom` in the first column. */
static void pixels(int32_t channels, const int8_t *top, const int8_t *bottom, const places *at, const float *share, int8_t *y) {
    int32_t one, other, left = channels;
    __asm__ volatile(
        "vmov.i32 q7, #128\n"
        "vmov.f32 q6, #0.5\n"
        "1: ldr %[one], [%[at], #8]\n"
        "vctp.32 %[left]\n"
        "vpstt\n"
        "vldrbt.s32 q0, [%[top]], #4\n"
        "vldrbt.s32 q1, [%[bottom]], #4\n"
        "add %[top], %[one]\n"
        "add %[bottom], %[one]\n"
        "vpstt\n"
        "vldrbt.s32 q2, [%[top], #-4]\n"
        "vldrbt.s32 q3, [%[bottom], #-4]\n"
        "sub %[top], %[one]\n"
        "sub %[bottom], %[one]\n"
        "ldrd %[one], %[other], [%[at]]\n"
        "vadd.i32 q0, q0, q7\n"
        "vcvt.f32.s32 q0, q0\n"
        "vmul.f32 q0, q0, %[one]\n"
        "vadd.i32 q1, q1, q7\n"
        "vcvt.f32.s32 q1, q1\n"
        "vmul.f32 q1, q1, %[other]\n"
        "vadd.i32 q2, q2, q7\n"
        "vcvt.f32.s32 q2, q2\n"
        "vmul.f32 q2, q2, %[one]\n"
        "vadd.i32 q3, q3, q7\n"
        "vcvt.f32.s32 q3, q3\n"
        "vmul.f32 q3, q3, %[other]\n"
        "ldr lr, [%[at], #12]\n"
        "dls lr, lr\n"
        "2: ldrd %[one], %[other], [%[share]], #8\n"
        "vmul.f32 q4, q0, %[one]\n"
        "vmul.f32 q5, q1, %[one]\n"
        "vadd.f32 q4, q4, q5\n"
        "vmul.f32 q5, q2, %[other]\n"
        "vadd.f32 q4, q4, q5\n"
        "vmul.f32 q5, q3, %[other]\n"
        "vadd.f32 q4, q4, q5\n"
        "vadd.f32 q4, q4, q6\n"
        "vcvt.s32.f32 q4, q4\n"
        "vadd.i32 q4, q4, q7\n"
        "vpst\n"
        "vstrbt.32 q4, [%[y]]\n"
        "add %[y], %[channels]\n"
        "le lr, 2b\n"
        "ldr %[one], [%[at], #12]\n"
        "sub %[share], %[share], %[one], lsl #3\n"
        "mls %[y], %[one], %[channels], %[y]\n"
        "adds %[y], #4\n"
        "subs %[left], #4\n"
        "bgt 1b\n"
        : [top] "+&l"(top), [bottom] "+&l"(bottom), [share] "+&r"(share), [y] "+&l"(y), [left] "+&r"(left), [one] "=&r"(one),
          [other] "=&r"(other)
        : [at] "r"(at), [channels] "r"(channels)
        : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "cc", "memory");
}

/* One output row between two input rows. */
static int8_t *row(const params *p, const int8_t *top, const int8_t *bottom, const float *of_row, int8_t *y) {
    const int32_t channels = p->channels;
    const float *share = p->shares, *const end = share + 2 * p->out_w;
    places at = {of_row[0], of_row[1], 0, 0};
    for (const int32_t *run = p->runs; share != end; run += 3) {
        const int32_t first = run[0] * channels, count = run[2];
        at.across = (run[1] - run[0]) * channels;
        at.count = count;
        pixels(channels, top + first, bottom + first, &at, share, y);
        y += count * channels;
        share += 2 * count;
    }
    return y;
}

#endif

#endif
