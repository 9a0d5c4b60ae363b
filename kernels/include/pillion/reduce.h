/* SPDX-License-Identifier: Apache-2.0
 * Reductions walk over the elements of the result and, for each, over its operand elements. */
#ifndef PILLION_REDUCE_H
#define PILLION_REDUCE_H

#include "pillion/kernels.h"
#include "pillion/walk.h"

/* The elements behind one of the result. */
typedef struct {
    int32_t count, axes;
    const int32_t *extent, *step;
} pillion_reduced;

#define PILLION_REDUCED(p) ((pillion_reduced){(p)->count, (p)->axes, (p)->extent, (p)->step})

static inline int32_t pillion_sum(pillion_reduced r, int32_t in_zp, const int8_t *x) {
    int32_t at[PILLION_MAX_AXES] = {0};
    int32_t sum = -r.count * in_zp;
    for (int32_t i = 0; i < r.count; i++) {
        sum += *x;
        x += pillion_walk(r.axes, r.extent, r.step, at);
    }
    return sum;
}

#endif
