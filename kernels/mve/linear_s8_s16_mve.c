/* SPDX-License-Identifier: Apache-2.0
 * Fully connected from 8 to 16 bits. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "linear16.h"

static __attribute__((noinline)) void groups(state *s, int16_t *y, const int32_t *constants) {
    PILLION_MVE_GROUPS(s, y, constants, ROUND);
}

void pillion_linear_s8_s16_mve(const pillion_linear_s8_s16_mve_params *p, const int8_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    vectors(p, x, y, p->in_features, 16 + 32 * p->chunks, groups, 0);
}

#endif
