/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"
#include "pillion/wide.h"

void pillion_wide_add(const pillion_wide_add_params *p, const void *a, const void *b, void *y, void *scratch) {
    const int64_t offset = (int64_t)((uint64_t)(uint32_t)p->offset_high << 32 | (uint32_t)p->offset_low);
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    int32_t a_first = 0, b_first = 0, at = 0;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++, at++) {
            const int64_t first = pillion_element(a, p->a_bytes, a_first + i * p->a_step);
            const int64_t second = pillion_element(b, p->b_bytes, b_first + i * p->b_step);
            const int64_t sum = first * p->a_multiplier + second * p->b_multiplier + offset;
            pillion_put(y, p->y_bytes, at, sum >> p->places, p->low, p->high);
        }
        a_first += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b_first += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}
