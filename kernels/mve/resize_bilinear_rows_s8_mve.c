/* SPDX-License-Identifier: Apache-2.0 */
#include "bilinear_mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_resize_bilinear_rows_s8_mve(const pillion_resize_bilinear_rows_s8_mve_params *p, const int8_t *x, uint32_t first, int8_t *y, void *scratch) {
    (void)scratch;
    resize_rows(p, x, first, y);
}

#endif
