/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/rows.h"
#include "pillion/walk.h"

/* A row of elements. All bytes of one are read before any is written, so that they become one load and one store. */
static void copy_row(const pillion_strided_copy_params *p, const uint8_t *x, uint8_t *y) {
    const int32_t count = p->count, x_step = p->x_step, y_step = p->y_step;
    if (p->element_bytes == 4) {
        for (int32_t i = 0; i < count; i++, x += x_step, y += y_step) {
            const uint8_t b0 = x[0], b1 = x[1], b2 = x[2], b3 = x[3];
            y[0] = b0, y[1] = b1, y[2] = b2, y[3] = b3;
        }
    } else if (p->element_bytes == 2) {
        for (int32_t i = 0; i < count; i++, x += x_step, y += y_step) {
            const uint8_t b0 = x[0], b1 = x[1];
            y[0] = b0, y[1] = b1;
        }
    } else if (x_step == 1 && y_step == 1) {
        pillion_move_rows(y, x, (uint32_t)count);
    } else {
        for (int32_t i = 0; i < count; i++, x += x_step, y += y_step) {
            *y = *x;
        }
    }
}

void pillion_strided_copy(const pillion_strided_copy_params *p, const void *x, void *y, void *scratch) {
    (void)scratch;
    const uint8_t *from = (const uint8_t *)x + p->x_offset;
    uint8_t *to = (uint8_t *)y + p->y_offset;
    int32_t from_at[PILLION_MAX_AXES] = {0}, to_at[PILLION_MAX_AXES] = {0};
    for (int32_t row = 0; row < p->rows; row++) {
        copy_row(p, from, to);
        from += pillion_walk(p->axes, p->extent, p->x_row_step, from_at);
        to += pillion_walk(p->axes, p->extent, p->y_row_step, to_at);
    }
}
