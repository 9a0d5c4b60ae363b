/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/walk.h"
#include "pillion/wide.h"

void pillion_wide_mul(const pillion_wide_mul_params *p, const void *a, const void *b, void *y, void *scratch) {
    int32_t a_at[PILLION_MAX_AXES] = {0}, b_at[PILLION_MAX_AXES] = {0};
    int32_t a_first = 0, b_first = 0, at = 0;
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++) {
        for (int32_t i = 0; i < p->count; i++, at++) {
            const int32_t first = pillion_element(a, p->a_bytes, a_first + i * p->a_step) - p->a_zp;
            const int32_t second = pillion_element(b, p->b_bytes, b_first + i * p->b_step) - p->b_zp;
            const int32_t shifted = (int32_t)((uint32_t)second << p->left);
            const int64_t product = (int64_t)(first * p->multiplier) * shifted + INT64_C(0x80000000);
            pillion_put(y, p->y_bytes, at, (product >> 32) + p->out_zp, p->low, p->high);
        }
        a_first += pillion_walk(p->axes, p->extent, p->a_row_step, a_at);
        b_first += pillion_walk(p->axes, p->extent, p->b_row_step, b_at);
    }
}
