/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

void pillion_clamp_s16_mve(const pillion_clamp_s16_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    pillion_mve_clamp_to(y, x, p->count, p->low, p->high);
}

#endif
