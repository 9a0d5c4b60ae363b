/* SPDX-License-Identifier: Apache-2.0
 * Quotients of tensors whose elements have the type `element`. */
#ifndef PILLION_DIV_H
#define PILLION_DIV_H

#include "pillion/kernels.h"
#include "pillion/rounding.h"
#include "pillion/walk.h"

/* One rounding for the quotient, one for the product, one to an integer. */
static inline int32_t quotient(int32_t a, int32_t b, float ratio) {
    if (b == 0) {
        return 0;
    }
    const float real = (float)a / (float)b;
    return pillion_nearest_within(real * ratio, 0, 8 * (int32_t)sizeof(element) + 1);
}

static inline void divide(const pillion_div_s8_params *p, const element *a, const element *b, element *y) {
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t level = quotient(*a - p->a_zp, *b - p->b_zp, *p->ratio);
        y[i] = (element)(pillion_clamp(level, p->low - p->out_zp, p->high - p->out_zp) + p->out_zp);
        a += pillion_walk(p->axes, p->extent, p->a_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_step, b_at);
    }
}

#endif
