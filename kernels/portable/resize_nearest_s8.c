/* SPDX-License-Identifier: Apache-2.0
 * Pixels are copied as a whole, and rows that are equal to the one before as rows. */
#include "nearest.h"

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
