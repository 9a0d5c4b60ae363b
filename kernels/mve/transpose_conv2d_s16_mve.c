/* SPDX-License-Identifier: Apache-2.0 */
#include "transpose_conv2d.h"

#if defined(__ARM_FEATURE_MVE)
void pillion_transpose_conv2d_s16_mve(const pillion_transpose_conv2d_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    PILLION_MVE_TRANSPOSE_CONV2D(s16)
}
#endif
