/* SPDX-License-Identifier: Apache-2.0 */
#include "bilinear.h"
#include "pillion/kernels.h"

/* The row of the image in front of a position. Before the first one there is none: it is then that one. */
static int32_t row_above(int32_t position) {
    return position < 0 ? 0 : position / ONE;
}

/* The row of the image behind a position, or at it. */
static int32_t row_below(int32_t position, int32_t last) {
    const int32_t row = (position + ONE - 1) / ONE;
    return row < last ? row : last;
}

void pillion_resize_bilinear_rows_s8(const pillion_resize_bilinear_rows_s8_params *p, const int8_t *x, uint32_t first, int8_t *y,
                                     void *scratch) {
    (void)scratch;
    const int32_t row_bytes = p->in_w * p->channels;
    int32_t position = p->start + (int32_t)first * p->step;
    const int32_t begin = row_above(position);
    for (int32_t oy = 0; oy < p->out_h; oy++, position += p->step) {
        const int32_t above = row_above(position), below = row_below(position, p->last);
        const int8_t *const top = x + (above - begin) * row_bytes, *const bottom = x + (below - begin) * row_bytes;
        y = pillion_row_between(p->columns, p->out_w, p->channels, top, bottom, position - ONE * above, y);
    }
}
