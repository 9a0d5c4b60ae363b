/* SPDX-License-Identifier: Apache-2.0
 * Depthwise 3x3, stride 1, of 8 bits. */
#define ROWS_NAME 3x3
#include "depthwise_3x3.h"

#if PILLION_HAS_DSP

void pillion_depthwise_3x3_s8_dsp(const pillion_depthwise_3x3_s8_dsp_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    PILLION_DSP_METHOD(3x3, pillion_dsp_expand_3x3, rows, 2);
    pillion_dsp_depthwise(p, x, y, scratch, &method_3x3);
}
#endif
