/* SPDX-License-Identifier: Apache-2.0
 * The portable norms, of elements and results of 8 and of 16 bits: for kernels that say before what an `element` and a `result` is, and
 * after that how the sums of a group become a `standard_of` them. */
#include "pillion/normalize.h"

static pillion_standard standard_of(const pillion_normalize_s8_params *p, const element *x);

static void group(const pillion_normalize_s8_params *p, int32_t first, const element *x, result *y) {
    const pillion_standard by = standard_of(p, x);
    const int32_t step = p->groups * p->inner, each = p->each_channel;
    const int32_t *factors = p->factors + each * first, *offsets = p->offsets + each * first;
    for (int32_t n = 0; n < p->positions; n++, x += step, y += step) {
        for (int32_t i = 0; i < p->inner; i++) {
            y[i] = (result)pillion_standardized(p, by, x[i], factors[each * i], offsets[each * i]);
        }
    }
}

static void all_groups(const pillion_normalize_s8_params *p, const element *x, result *y) {
    const int32_t step = p->groups * p->inner;
    for (int32_t row = 0; row < p->rows; row++, x += p->positions * step, y += p->positions * step) {
        for (int32_t first = 0; first < step; first += p->inner) {
            group(p, first, x + first, y + first);
        }
    }
}
