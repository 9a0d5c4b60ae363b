/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3 without dilation, of 8-bit inputs to 16-bit results, 16 channels at a time (wide_3x3.h). */
#include "wide_3x3.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

#define RESULTS MULTIPLY("q4", "48") MULTIPLY("q5", "64") MULTIPLY("q6", "80") MULTIPLY("q7", "96") STORE_INT16
WIDE_3X3(outputs, RESULTS)

void pillion_depthwise_3x3_wide_s8_s16_mve(const pillion_depthwise_3x3_wide_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                                           void *scratch) {
    const pillion_mve_wide_kind kind = {outputs, 1, 2, 32};
    pillion_mve_wide(p, x, y, scratch, &kind);
    pillion_mve_clamp_16(y, p->images * p->out_h * p->out_w * p->channels, INT16_MIN, p->high);
}

#endif
