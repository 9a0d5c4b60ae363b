/* SPDX-License-Identifier: Apache-2.0 */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

void pillion_conv2d_im2col_s16_s4_mve(const pillion_conv2d_im2col_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_conv2d_im2col_s16_s4_mve_params bytes = *p;
    bytes.out_c = 2 * p->out_c;
    bytes.low = INT8_MIN;
    bytes.high = INT8_MAX;
    pillion_mve_im2col(&bytes, (const int8_t *)x, (int8_t *)y, scratch, pillion_mve_dot16_4, pillion_mve_dot16_4_any);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, p->images * (p->end_top + p->pad_top) / p->stride_h * p->out_w * p->out_c, p->low, p->high);
    }
}

#endif
