/* SPDX-License-Identifier: Apache-2.0
 * Pixels are copied as a whole, and rows that are equal to the one before as rows. */
#include "pillion/kernels.h"
#include "pillion/rows.h"

static void row_of_pixels(const pillion_resize_nearest_s8_params *p, const int8_t *row, int8_t *y) {
    const int32_t out_w = p->out_w, channels = p->channels;
    const int32_t *const columns = p->columns;
    for (int32_t ox = 0; ox < out_w; ox++, y += channels) {
        pillion_move_rows(y, row + columns[ox] * channels, (uint32_t)channels);
    }
}

void pillion_resize_nearest_s8(const pillion_resize_nearest_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t row_bytes = p->out_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t oy = 0; oy < p->out_h; oy++, y += row_bytes) {
            if (oy > 0 && p->rows[oy] == p->rows[oy - 1]) {
                pillion_move_rows(y, y - row_bytes, (uint32_t)row_bytes);
            } else {
                row_of_pixels(p, x + p->rows[oy] * p->in_w * p->channels, y);
            }
        }
    }
}
