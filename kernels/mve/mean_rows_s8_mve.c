/* SPDX-License-Identifier: Apache-2.0
 * Means of rows that arrive a few at a time, sixteen rows in turn: 255 elements fit 16 bits; their sums are added to the sums in the scratch
 * memory, which holds the even ones of eight neighbours, then the odd ones. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/assembly.h"
#include "row_sums.h"

PILLION_FIELDS_AT(pillion_mean_rows_s8_mve_params, offsetof(pillion_mean_rows_s8_mve_params, multiplier) + 4, shift,
                  fix, out_zp);

void pillion_mean_rows_s8_mve(const pillion_mean_rows_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    int32_t *sums = scratch;
    for (int32_t i = 0; i < p->inner; i += LANES, sums += LANES) {
        for (int32_t lane = 0; p->is_first && lane < LANES; lane++) {
            sums[lane] = -p->offset;
        }
        add_rows(x + i, p->reduced, p->inner, 1, sums);
        for (int32_t half = 0; p->is_last && half < LANES && i + half < p->inner; half += LANES / 2) {
            finish(&p->multiplier, sums + half, p->inner - i - half, y + i + half);
        }
    }
}

#endif
