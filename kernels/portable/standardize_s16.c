/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/standardize.h"

typedef pillion_standardize_s16_params params;

static pillion_standard standard_of(const params *p, const int16_t *x) {
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

static void group(const params *p, int32_t first, const int16_t *x, int8_t *y) {
    const pillion_standard by = standard_of(p, x);
    const int32_t step = p->groups * p->inner, each = p->each_channel;
    const int32_t *factors = p->factors + each * first, *offsets = p->offsets + each * first;
    for (int32_t n = 0; n < p->positions; n++, x += step, y += step) {
        for (int32_t i = 0; i < p->inner; i++) {
            y[i] = pillion_standardized(p, by, x[i], factors[each * i], offsets[each * i]);
        }
    }
}

void pillion_standardize_s16(const params *p, const int16_t *x, int8_t *y, void *scratch) {
    const int32_t step = p->groups * p->inner;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->positions * step, y += p->positions * step) {
        for (int32_t first = 0; first < step; first += p->inner) {
            group(p, first, x + first, y + first);
        }
    }
}
