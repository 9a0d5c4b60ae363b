/* SPDX-License-Identifier: Apache-2.0 */
#include "transpose_conv2d.h"

#if PILLION_HAS_DSP
PILLION_BEGINS_WITH(pillion_transpose_conv2d_s16_dsp_params, pillion_conv2d_s16_dsp_params, rows);

void pillion_transpose_conv2d_s16_dsp(const pillion_transpose_conv2d_s16_dsp_params *p, const int16_t *x, int16_t *y, void *scratch) {
    PILLION_DSP_TRANSPOSE_CONV2D(s16)
}
#endif
