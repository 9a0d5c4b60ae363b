/* SPDX-License-Identifier: Apache-2.0 */
#include "bilinear_float_mve.h"

#if defined(__ARM_FEATURE_MVE)

void pillion_resize_bilinear_float_s8_mve(const params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_between_rows(p, x, y, row);
}

#endif
