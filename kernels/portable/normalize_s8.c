/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

typedef int8_t element;
typedef int8_t result;
#include "pillion/normalize_each.h"

static pillion_standard standard_of(const pillion_normalize_s8_params *p, const int8_t *x) {
    const int32_t step = p->groups * p->inner;
    int32_t sum = 0;
    int64_t squares = 0;
    for (int32_t n = 0; n < p->positions; n++, x += step) {
        uint32_t some = 0;
        for (int32_t i = 0; i < p->inner; i++) {
            sum += x[i];
            some += (uint32_t)(x[i] * x[i]);
            if ((i & (PILLION_MOST_SQUARES - 1)) == PILLION_MOST_SQUARES - 1) {
                squares += some;
                some = 0;
            }
        }
        squares += some;
    }
    return pillion_standard_of(p, sum, squares);
}

void pillion_normalize_s8(const pillion_normalize_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    all_groups(p, x, y);
}
