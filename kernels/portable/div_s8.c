/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/rounding.h"
#include "pillion/walk.h"

/* One rounding for the quotient, one for the product, one to an integer. */
static int32_t quotient(int32_t a, int32_t b, float ratio) {
    if (b == 0) {
        return 0;
    }
    const float real = (float)a / (float)b;
    return pillion_nearest(real * ratio, 0);
}

void pillion_div_s8(const pillion_div_s8_params *p, const int8_t *a, const int8_t *b, int8_t *y, void *scratch) {
    (void)scratch;
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t i = 0; i < p->elements; i++) {
        const int32_t level = quotient(*a - p->a_zp, *b - p->b_zp, *p->ratio);
        y[i] = pillion_saturate(level, p->out_zp, p->low, p->high);
        a += pillion_walk(p->axes, p->extent, p->a_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_step, b_at);
    }
}
