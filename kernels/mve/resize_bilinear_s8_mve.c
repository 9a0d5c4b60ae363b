/* SPDX-License-Identifier: Apache-2.0 */
#include "bilinear_mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_resize_bilinear_s8_mve(const pillion_resize_bilinear_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    resize(p, x, y);
}

#endif
