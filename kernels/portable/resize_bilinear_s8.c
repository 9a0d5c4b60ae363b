/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

enum { ONE = 1024, HALF = ONE * ONE / 2 };

/* Nearest integer, half away from zero. */
static int8_t rounded(int32_t sum) {
    return (int8_t)((sum + (sum < 0 ? -HALF : HALF)) / (ONE * ONE));
}

/* One output row between two input rows; the lower one counts for `lower` parts of 1024. */
static int8_t *row(const pillion_resize_bilinear_s8_params *p, const int8_t *top, const int8_t *bottom, int32_t lower,
                   int8_t *y) {
    const int32_t *column = p->columns;
    for (int32_t ox = 0; ox < p->out_w; ox++, column += 3) {
        const int32_t left = column[0] * p->channels, right = column[1] * p->channels, part = column[2];
        for (int32_t c = 0; c < p->channels; c++) {
            const int32_t first = top[left + c] * (ONE - part) + top[right + c] * part;
            const int32_t second = bottom[left + c] * (ONE - part) + bottom[right + c] * part;
            *y++ = rounded(first * (ONE - lower) + second * lower);
        }
    }
    return y;
}

void pillion_resize_bilinear_s8(const pillion_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t row_bytes = p->in_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * row_bytes) {
        const int32_t *line = p->rows;
        for (int32_t oy = 0; oy < p->out_h; oy++, line += 3) {
            y = row(p, x + line[0] * row_bytes, x + line[1] * row_bytes, line[2], y);
        }
    }
}
