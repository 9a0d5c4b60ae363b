/* SPDX-License-Identifier: Apache-2.0
 * Means over a moving window: entering rows are added to the sums, and the rows that leave next are subtracted. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"
#include "row_sums.h"

PILLION_FIELDS_AT(pillion_window_mean_s8_mve_params, offsetof(pillion_window_mean_s8_mve_params, multiplier) + 4, shift,
                  fix, out_zp);

void pillion_window_mean_s8_mve(const pillion_window_mean_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *sums = scratch;
    const int32_t inner = p->inner, rows = p->entering;
    const int8_t *const newest = x + (p->window - rows) * inner;
    for (int32_t i = 0; i < inner; i += LANES, sums += LANES) {
        add_rows(newest + i, rows, inner, 1, sums);
        for (int32_t half = 0; half < LANES && i + half < inner; half += LANES / 2) {
            finish(&p->multiplier, sums + half, inner - i - half, y + i + half);
        }
        add_rows(x + i, rows, inner, -1, sums);
    }
}

#endif
