/* SPDX-License-Identifier: Apache-2.0
 * Norms of elements of 16 bits that have one group, with results of 8 bits. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#define STORE "vstrb.32 q0, [%[y]], #4\n"
typedef int8_t result;
#include "normalize_wide.h"

void pillion_normalize_s16_mve(const pillion_normalize_s16_mve_params *p, const int16_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    all_rows(p, x, y);
}

#endif
