/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/standardize.h"

static pillion_standard standard_of(const pillion_standardize_s8_params *p, const int8_t *x) {
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

static void group(const pillion_standardize_s8_params *p, int32_t first, const int8_t *x, int8_t *y) {
    const pillion_standard by = standard_of(p, x);
    const int32_t step = p->groups * p->inner, each = p->each_channel;
    const int32_t *factors = p->factors + each * first, *offsets = p->offsets + each * first;
    for (int32_t n = 0; n < p->positions; n++, x += step, y += step) {
        for (int32_t i = 0; i < p->inner; i++) {
            y[i] = pillion_standardized(p, by, x[i], factors[each * i], offsets[each * i]);
        }
    }
}

void pillion_standardize_s8(const pillion_standardize_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int32_t step = p->groups * p->inner;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->positions * step, y += p->positions * step) {
        for (int32_t first = 0; first < step; first += p->inner) {
            group(p, first, x + first, y + first);
        }
    }
}
