/* SPDX-License-Identifier: Apache-2.0
 * The first place of the largest element. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "places.h"

EIGHT_PLACES("gt")

void pillion_arg_max_s8_mve(const pillion_arg_max_s8_mve_params *p, const int8_t *x, int32_t *y, void *scratch) {
    (void)scratch;
    pillion_all_places(p->outer, p->size, p->inner, x, y, eight);
}

#endif
