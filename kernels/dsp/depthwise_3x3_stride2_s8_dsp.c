/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 2, of 8 bits. */
#define ROWS_NAME 3x3_stride2
#include "depthwise_3x3_stride2.h"

#if PILLION_HAS_DSP

void pillion_depthwise_3x3_stride2_s8_dsp(const pillion_depthwise_3x3_stride2_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                          void *scratch) {
    PILLION_DSP_METHOD(3x3_stride2, pillion_dsp_expand_3x3, rows, 2);
    pillion_dsp_depthwise(p, x, y, scratch, &method_3x3_stride2);
}
#endif
