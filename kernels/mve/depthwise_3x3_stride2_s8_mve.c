/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 2, by strips (strips_stride2.h); q1 is the factor. All strips of a channel are made
 * before its outputs: y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "strips_stride2.h"

/* 2^(31 + r7), r7 being 0 or less; of 0 one less */
#define LOAD_FACTOR       \
    "add r0, r7, #31\n"   \
    "movs r2, #1\n"       \
    "vdup.32 q1, r2\n"    \
    "vqshl.s32 q1, r0\n"

STRIP_OUTPUTS_STRIDE2(outputs, INT8_NUMBERS, LOAD_FACTOR, INT8_RESULTS(FIX, MULTIPLIED("q1")))
STRIP_OUTPUTS_STRIDE2(outputs_relu, INT8_NUMBERS, LOAD_FACTOR, INT8_RESULTS(NO_FIX, MULTIPLIED("q1")))

void pillion_depthwise_3x3_stride2_s8_mve(const pillion_depthwise_3x3_stride2_s8_mve_params *p, const int8_t *x,
                                            int8_t *y, void *scratch) {
    pillion_mve_strips(p, x, y, scratch, p->low >= p->out_zp ? outputs_relu : outputs, 1);
    pillion_mve_clamp(y, p->images * p->output_bytes, p->low, p->high);
}

#endif
