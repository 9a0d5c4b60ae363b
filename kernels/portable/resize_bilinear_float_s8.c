/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

enum { LEAST = -128 };

static float from_least(int8_t x) {
    return (float)(x - LEAST);
}

/* One output row between two input rows; the lower one counts for `lower`. The order of operations is that of the reference. */
static int8_t *row(const pillion_resize_bilinear_float_s8_params *p, const int8_t *top, const int8_t *bottom, float lower,
                   int8_t *y) {
    const float upper = 1.0f - lower;
    const int32_t *column = p->columns;
    for (int32_t ox = 0; ox < p->out_w; ox++, column += 2) {
        const int32_t first = column[0] * p->channels, second = column[1] * p->channels;
        const float right = p->right[ox], left = 1.0f - right;
        for (int32_t c = 0; c < p->channels; c++) {
            float sum = from_least(top[first + c]) * upper * left;
            sum += from_least(bottom[first + c]) * lower * left;
            sum += from_least(top[second + c]) * upper * right;
            sum += from_least(bottom[second + c]) * lower * right;
            *y++ = (int8_t)((int32_t)(sum + 0.5f) + LEAST);
        }
    }
    return y;
}

void pillion_resize_bilinear_float_s8(const pillion_resize_bilinear_float_s8_params *p, const int8_t *x, int8_t *y,
                                      void *scratch) {
    (void)scratch;
    const int32_t row_bytes = p->in_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * row_bytes) {
        const int32_t *line = p->rows;
        for (int32_t oy = 0; oy < p->out_h; oy++, line += 2) {
            y = row(p, x + line[0] * row_bytes, x + line[1] * row_bytes, p->lower[oy], y);
        }
    }
}
