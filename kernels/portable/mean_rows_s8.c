/* SPDX-License-Identifier: Apache-2.0
 * Means of what comes a few rows at a time: integer sums are the same in any order. */
#include <string.h>

#include "pillion/kernels.h"
#include "pillion/requantize.h"

enum { TOGETHER = 4 };

/* Adds the rows of up to four neighbouring elements. */
static void add(const pillion_mean_rows_s8_params *p, const int8_t *x, int32_t count, int32_t *sums) {
    const int32_t inner = p->inner;
    if (count < TOGETHER) {
        for (int32_t n = 0; n < p->reduced; n++, x += inner) {
            for (int32_t i = 0; i < count; i++) {
                sums[i] += x[i];
            }
        }
        return;
    }
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (int32_t n = 0; n < p->reduced; n++, x += inner) {
        a += x[0];
        b += x[1];
        c += x[2];
        d += x[3];
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

void pillion_mean_rows_s8(const pillion_mean_rows_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *const sums = scratch;
    const int32_t inner = p->inner;
    if (p->is_first) {
        memset(sums, 0, (size_t)inner * sizeof *sums);
    }
    for (int32_t i = 0; i < inner; i += TOGETHER) {
        add(p, x + i, inner - i < TOGETHER ? inner - i : TOGETHER, sums + i);
    }
    for (int32_t i = 0; p->is_last && i < inner; i++) {
        const int32_t mean = pillion_requantize(sums[i] - p->offset, p->multiplier, p->shift);
        y[i] = pillion_saturate(mean, p->out_zp, -128, 127);
    }
}
