/* SPDX-License-Identifier: Apache-2.0
 * Two operands, element by element, broadcast by steps of 0. */
#ifndef PILLION_BROADCAST_H
#define PILLION_BROADCAST_H

#include "pillion/blocks.h"
#include "pillion/choosing.h"
#include "pillion/walk.h"

typedef struct {
    PILLION_BROADCAST_FIELDS
} pillion_broadcast;

#define PILLION_BROADCAST(p) \
    (&(pillion_broadcast){(p)->rows, (p)->count, (p)->a_step, (p)->b_step, (p)->axes, (p)->extent, (p)->a_row_step, (p)->b_row_step})

/* Overwrites a with the results for a and b. `params` is the kernel's. */
typedef void pillion_block_function(const void *params, int8_t *a, const int8_t *b, int32_t count);

static inline void pillion_broadcast_row(const pillion_broadcast *p, const void *params, pillion_block_function *apply,
                                         const int8_t *a, const int8_t *b, int8_t *y) {
    for (int32_t at = 0; at < p->count; at += PILLION_BLOCK) {
        const int32_t count = pillion_block_count(at, p->count);
        int8_t a_block[PILLION_BLOCK], b_block[PILLION_BLOCK];
        pillion_load(a_block, a + at * p->a_step, p->a_step, count);
        pillion_load(b_block, b + at * p->b_step, p->b_step, count);
        apply(params, a_block, b_block, count);
        pillion_store(y + at, a_block, count);
    }
}

static inline void pillion_broadcast_rows(const pillion_broadcast *p, const void *params, pillion_block_function *apply,
                                          const int8_t *a, const int8_t *b, int8_t *y) {
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++, y += p->count) {
        pillion_broadcast_row(p, params, apply, a, b, y);
        a += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}

#endif
