/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"

void pillion_compare_s16(const pillion_compare_s16_params *p, const int16_t *a, const int16_t *b, int8_t *y,
                         void *scratch) {
    (void)scratch;
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++) {
            const int64_t first = (int64_t)(a[i * p->a_step] - p->a_zp) * p->a_multiplier;
            const int64_t second = (int64_t)(b[i * p->b_step] - p->b_zp) * p->b_multiplier;
            const int32_t outcome = first < second ? 1 : first == second ? 2 : 4;
            *y++ = (p->relation & outcome) != 0;
        }
        a += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}
