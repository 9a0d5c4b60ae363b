/* SPDX-License-Identifier: Apache-2.0
 * The largest element along neighbouring axes. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#define COMPARE "vmax"
#include "extremes.h"

void pillion_reduce_max_s8_mve(const pillion_reduce_max_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    extremes(p, x, y, scratch);
}

#endif
