/* SPDX-License-Identifier: Apache-2.0
 * Softmax with a table of exponentials. */
#include "pillion/kernels.h"
#include "pillion/softmax.h"

static inline void row(const pillion_softmax_s8_params *p, const int8_t *x, int8_t *y) {
    const int32_t largest = pillion_largest_of(x, p->count);
    uint32_t sum = 0;
    for (int32_t i = 0; i < p->count; i++) {
        sum += pillion_in_sum(pillion_exponential(p, largest, x[i]));
    }
    const pillion_divisor by = pillion_divide_by(sum, p->places, p->factor);
    for (int32_t i = 0; i < p->count; i++) {
        y[i] = pillion_probability(by, pillion_exponential(p, largest, x[i]));
    }
}

void pillion_softmax_s8(const pillion_softmax_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const pillion_softmax_s8_params local = *p; /* which no result overwrites */
    (void)scratch;
    for (int32_t n = 0; n < local.rows; n++, x += local.count, y += local.count) {
        row(&local, x, y);
    }
}
