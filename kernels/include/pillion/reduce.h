/* SPDX-License-Identifier: Apache-2.0
 * Reductions walk over the elements of the result and, for each, over those behind it. */
#ifndef PILLION_REDUCE_H
#define PILLION_REDUCE_H

#include "pillion/kernels.h"
#include "pillion/walk.h"

static inline int32_t pillion_sum(const pillion_reduction *p, const int8_t *x) {
    int32_t at[PILLION_MAX_AXES] = {0};
    int32_t sum = -p->count * p->in_zp;
    for (int32_t i = 0; i < p->count; i++) {
        sum += *x;
        x += pillion_walk(p->axes, p->extent, p->step, at);
    }
    return sum;
}

static inline int8_t pillion_extreme(const pillion_reduction *p, const int8_t *x, int32_t is_maximum) {
    int32_t at[PILLION_MAX_AXES] = {0};
    int8_t extreme = *x;
    for (int32_t i = 0; i < p->count; i++) {
        if (is_maximum ? *x > extreme : *x < extreme) {
            extreme = *x;
        }
        x += pillion_walk(p->axes, p->extent, p->step, at);
    }
    return extreme;
}

#endif
