/* SPDX-License-Identifier: Apache-2.0
 * Memory of filters: all of it moves on by one number, then the new numbers of the filters take their places. y may be memory. */
#include "gates.h"

#if defined(__ARM_FEATURE_MVE)
#include "pillion/remember.h"

void pillion_svdf_memory_s16_mve(const pillion_svdf_memory_s16_mve_params *p, const int8_t *x, const int16_t *memory,
                                 int16_t *y, void *scratch) {
    const pillion_mve_rows rows = {p->constants, p->scalings, p->groups, p->chunks};
    const int32_t remembered = p->filters * p->length;
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs, memory += remembered, y += remembered) {
        int16_t *const sums = scratch;
        for (int32_t i = 0; i < 8 * p->groups; i++) {
            sums[i] = 0;
        }
        pillion_mve_add_rows(&rows, x, sums);
        pillion_remember(memory, p->filters, p->length, sums, y);
    }
}

#endif
