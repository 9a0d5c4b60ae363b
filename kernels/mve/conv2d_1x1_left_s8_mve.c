/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_conv2d_1x1_left_s8_mve(const pillion_conv2d_1x1_left_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    pillion_mve_pointwise(p, x, y, scratch, pillion_mve_dot, pillion_mve_dot_left);
}

#endif
