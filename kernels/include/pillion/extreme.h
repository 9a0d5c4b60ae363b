/* SPDX-License-Identifier: Apache-2.0
 * The largest or the smallest element of a reduction; `element` is the type. */
#ifndef PILLION_EXTREME_H
#define PILLION_EXTREME_H

#include "pillion/reduce.h"

static inline element pillion_extreme(pillion_reduced r, const element *x, int32_t is_maximum) {
    int32_t at[PILLION_MAX_AXES] = {0};
    element extreme = *x;
    for (int32_t i = 0; i < r.count; i++) {
        if (is_maximum ? *x > extreme : *x < extreme) {
            extreme = *x;
        }
        x += pillion_walk(r.axes, r.extent, r.step, at);
    }
    return extreme;
}

#endif
