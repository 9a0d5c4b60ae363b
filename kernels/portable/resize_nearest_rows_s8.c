/* SPDX-License-Identifier: Apache-2.0 */
#include "nearest.h"

void pillion_resize_nearest_rows_s8(const pillion_resize_nearest_rows_s8_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                    void *scratch) {
    (void)scratch;
    const int32_t *const rows = p->rows + first;
    for (int32_t oy = 0; oy < p->out_h; oy++, y += p->out_w * p->channels) {
        row_of_pixels(p, x + (rows[oy] - rows[0]) * p->in_w * p->channels, y);
    }
}
