/* SPDX-License-Identifier: Apache-2.0
 * Two operands of 16 bits, element by element, broadcast by steps of 0. */
#ifndef PILLION_BROADCAST16_H
#define PILLION_BROADCAST16_H

#include "pillion/broadcast.h"
#include "pillion/layers16.h"
#include "pillion/requantize.h"

/* The result for one pair of elements; `params` is the kernel's. */
typedef int32_t pillion_pair_function(const void *params, int32_t a, int32_t b);

PILLION_INLINE void pillion_broadcast_16(const pillion_broadcast *p, const void *params, pillion_pair_function *apply,
                                         const int16_t *a, const int16_t *b, int16_t *y) {
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++) {
            *y++ = (int16_t)apply(params, a[i * p->a_step], b[i * p->b_step]);
        }
        a += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}

#endif
