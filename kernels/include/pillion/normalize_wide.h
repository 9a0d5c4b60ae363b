/* SPDX-License-Identifier: Apache-2.0
 * The portable norms of 16-bit elements: for kernels that say before what a `result` is. */
#include <stdint.h>

typedef int16_t element;
#include "pillion/normalize_each.h"

static pillion_standard standard_of(const pillion_normalize_s8_params *p, const int16_t *x) {
    const int32_t step = p->groups * p->inner;
    int32_t sum = 0;
    int64_t squares = 0;
    for (int32_t n = 0; n < p->positions; n++, x += step) {
        for (int32_t i = 0; i < p->inner; i++) {
            sum += x[i];
            squares += x[i] * x[i];
        }
    }
    return pillion_standard_of(p, sum, squares);
}
