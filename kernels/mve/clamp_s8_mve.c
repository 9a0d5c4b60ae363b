/* SPDX-License-Identifier: Apache-2.0
 * Values below `low` become `low`, above `high` become `high`. y may be x. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

void pillion_clamp_s8_mve(const pillion_clamp_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    if (x != y) {
        pillion_mve_copy(y, x, p->count);
    }
    pillion_mve_clamp(y, p->count, p->low, p->high);
}

#endif
