/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_conv2d_1x1_unpacked_s16_s4_mve(const pillion_conv2d_1x1_unpacked_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_mve_pointwise_16(p, x, y, scratch, pillion_mve_dot16_unpacked, pillion_mve_dot16_any);
}

void pillion_conv2d_1x1_few_unpacked_s16_s4_mve(const pillion_conv2d_1x1_few_unpacked_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_mve_pointwise_16(p, x, y, scratch, pillion_mve_dot16_unpacked, pillion_mve_dot16_few);
}

#endif
