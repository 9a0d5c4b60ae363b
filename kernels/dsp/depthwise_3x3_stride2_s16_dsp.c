/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 2, of 16 bits. */
#define PILLION_DSP_RESULTS_16
#define ROWS_NAME 3x3_stride2_16
#include "depthwise_3x3_stride2.h"

#if PILLION_HAS_DSP

void pillion_depthwise_3x3_stride2_s16_dsp(const pillion_depthwise_3x3_stride2_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    PILLION_DSP_METHOD(3x3_stride2_16, pillion_dsp_expand_3x3, rows, 2);
    pillion_dsp_depthwise_16(p, x, y, scratch, &method_3x3_stride2_16);
}
#endif
