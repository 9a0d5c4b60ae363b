/* SPDX-License-Identifier: Apache-2.0 */
#include "im2col.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_conv2d_im2col_left_s4_mve(const pillion_conv2d_im2col_left_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_im2col(p, x, y, scratch, pillion_mve_dot_unpacked, pillion_mve_dot_left);
}

#endif
