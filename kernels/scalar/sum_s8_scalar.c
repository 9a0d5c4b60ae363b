/* SPDX-License-Identifier: Apache-2.0
 * Addition and subtraction as (a * x1 + b * x2 + c) >> shift: the compiler has found a, b and c and has proven for all
 * 65,536 pairs of inputs that this is the answer of the three requantizations that define it. */
#include "pillion/scalar.h"
#include "rescale.h"

void pillion_sum_s8_scalar(const pillion_sum_s8_scalar_params *p, const int8_t *x1, const int8_t *x2, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t a = p->a, b = p->b, c = p->c, shift = p->shift, low = p->low, high = p->high, count = p->count;
    for (int32_t row = p->rows; row > 0; row--, x1 += count, y += count) {
        for (int32_t i = 0; i < count; i++) {
            y[i] = (int8_t)pillion_clamp((a * x1[i] + b * x2[i] + c) >> shift, low, high);
        }
    }
}
