/* SPDX-License-Identifier: Apache-2.0
 * Bilinear resizing in float32: which rows of the image each row of the result lies between. */
#ifndef PILLION_BETWEEN_ROWS_H
#define PILLION_BETWEEN_ROWS_H

#include "pillion/kernels.h"
#include "pillion/requantize.h"

/* Makes one row of the result from two of the image and their shares, and says where the next one lies. */
typedef int8_t *pillion_row_between_rows(const pillion_resize_bilinear_float_s8_params *p, const int8_t *top, const int8_t *bottom,
                                         const float *of_row, int8_t *y);

PILLION_INLINE void pillion_between_rows(const pillion_resize_bilinear_float_s8_params *p, const int8_t *x, int8_t *y,
                                         pillion_row_between_rows *row) {
    const int32_t row_bytes = p->in_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * row_bytes) {
        const int32_t *line = p->rows;
        for (int32_t oy = 0; oy < p->out_h; oy++, line += 2) {
            y = row(p, x + line[0] * row_bytes, x + line[1] * row_bytes, p->row_shares + 2 * oy, y);
        }
    }
}

/* The rows of one image from the one with the number `first` on. x begins with the first row that is read. */
PILLION_INLINE void pillion_between_rows_from(const pillion_resize_bilinear_float_s8_params *p, uint32_t first, const int8_t *x, int8_t *y,
                                              pillion_row_between_rows *row) {
    const int32_t row_bytes = p->in_w * p->channels;
    const int32_t *line = p->rows + 2 * first;
    const float *of_row = p->row_shares + 2 * first;
    const int32_t begin = line[0];
    for (int32_t oy = 0; oy < p->out_h; oy++, line += 2, of_row += 2) {
        y = row(p, x + (line[0] - begin) * row_bytes, x + (line[1] - begin) * row_bytes, of_row, y);
    }
}

#endif
