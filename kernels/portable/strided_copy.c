/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/rows.h"
#include "pillion/walk.h"

enum { LONG_RUN = 8 }; /* bytes from which on a row is moved by words */

/* Single bytes of rows, along the longer of both axes. */
static void copy_bytes(const pillion_strided_copy_params *p, const pillion_last_axis *rows, const uint8_t *from, uint8_t *to) {
    const int32_t along = p->count < rows->extent;
    const int32_t count = along ? rows->extent : p->count, many = along ? p->count : rows->extent;
    const int32_t x_step = along ? rows->x_step : p->x_step, x_next = along ? p->x_step : rows->x_step;
    const int32_t y_step = along ? rows->y_step : p->y_step, y_next = along ? p->y_step : rows->y_step;
    for (int32_t row = 0; row < many; row++, from += x_next, to += y_next) {
        const uint8_t *x = from;
        uint8_t *y = to;
        for (int32_t i = 0; i < count; i++, x += x_step, y += y_step) {
            *y = *x;
        }
    }
}

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
    } else {
        pillion_move_rows(y, x, (uint32_t)count);
    }
}

void pillion_strided_copy(const pillion_strided_copy_params *p, const void *x, void *y, void *scratch) {
    (void)scratch;
    const uint8_t *from = (const uint8_t *)x + p->x_offset;
    uint8_t *to = (uint8_t *)y + p->y_offset;
    int32_t from_at[PILLION_MAX_AXES] = {0}, to_at[PILLION_MAX_AXES] = {0};
    const pillion_last_axis last = pillion_last_axis_of(p->axes, p->extent, p->x_row_step, p->y_row_step);
    const int32_t is_run = p->x_step == 1 && p->y_step == 1 && p->count >= LONG_RUN;
    const int32_t is_bytes = p->element_bytes == 1 && !is_run;
    for (int32_t row = 0; row < p->rows; row += last.extent) {
        if (is_bytes) {
            copy_bytes(p, &last, from, to);
        } else {
            for (int32_t i = 0; i < last.extent; i++) {
                copy_row(p, from + i * last.x_step, to + i * last.y_step);
            }
        }
        from += pillion_walk(last.outer_axes, p->extent, p->x_row_step, from_at);
        to += pillion_walk(last.outer_axes, p->extent, p->y_row_step, to_at);
    }
}
