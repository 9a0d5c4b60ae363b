/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 2, of 8-bit inputs to 16-bit results, by strips (strips_stride2.h). */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"
#include "strips_stride2.h"

#define RESULTS INT16_RESULTS("q5", "q6", AT_LEAST, "", "q7")
STRIP_OUTPUTS_STRIDE2(outputs, INT16_NUMBERS, "", RESULTS)

void pillion_depthwise_3x3_stride2_s8_s16_mve(const pillion_depthwise_3x3_stride2_s8_s16_mve_params *p, const int8_t *x, int16_t *y,
                                              void *scratch) {
    pillion_mve_strips(p, x, y, scratch, outputs, 2);
    pillion_mve_clamp_16(y, p->images * p->output_bytes >> 1, INT16_MIN, p->high);
}

#endif
