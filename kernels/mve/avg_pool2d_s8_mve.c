/* SPDX-License-Identifier: Apache-2.0
 * The mean of each window, half away from zero. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#define FROM 0
#define BACK ""
#include "average.h"

void pillion_avg_pool2d_s8_mve(const pillion_avg_pool2d_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_pool(p, x, y, window);
}

#endif
