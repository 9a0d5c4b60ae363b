/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution by a kernel of 3x3, stride 1, by strips (strips_stride1.h). All strips of a channel are made before its
 * outputs: y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "strips_stride1.h"

STRIP_OUTPUTS_STRIDE1(outputs, INT8_NUMBERS, INT8_RESULTS(FIX, SHIFTED))
STRIP_OUTPUTS_STRIDE1(outputs_relu, INT8_NUMBERS, INT8_RESULTS(NO_FIX, SHIFTED))

void pillion_depthwise_3x3_s8_mve(const pillion_depthwise_3x3_s8_mve_params *p, const int8_t *x, int8_t *y,
                                         void *scratch) {
    pillion_mve_strips(p, x, y, scratch, p->low >= p->out_zp ? outputs_relu : outputs, 1);
    pillion_mve_clamp(y, p->images * p->output_bytes, p->low, p->high);
}

#endif
