/* SPDX-License-Identifier: Apache-2.0 */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_conv2d_im2col_few_s16_mve(const pillion_conv2d_im2col_few_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_mve_im2col_16(p, x, y, scratch, pillion_mve_dot16, pillion_mve_dot16_few);
}

#endif
