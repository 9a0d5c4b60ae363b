/* SPDX-License-Identifier: Apache-2.0
 * Depthwise convolution of 16 bits by any window without dilation of columns, at stride 1 or 2 along a row. */
#define PILLION_DSP_RESULTS_16
#define PARTS_NAME any_16
#include "depthwise_any.h"

#if PILLION_HAS_DSP

void pillion_depthwise_any_s16_dsp(const pillion_depthwise_any_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    PILLION_DSP_METHOD(any_16, expand_parts, rows_of_parts, 0);
    pillion_dsp_method method = method_any_16;
    method.reach = reach_of_parts(p);
    pillion_dsp_depthwise_16(p, x, y, scratch, &method);
}
#endif
