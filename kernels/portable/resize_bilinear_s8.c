/* SPDX-License-Identifier: Apache-2.0 */
#include "bilinear.h"
#include "pillion/kernels.h"

void pillion_resize_bilinear_s8(const pillion_resize_bilinear_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const int32_t row_bytes = p->in_w * p->channels;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * row_bytes) {
        const int32_t *line = p->rows;
        for (int32_t oy = 0; oy < p->out_h; oy++, line += 3) {
            const int8_t *const top = x + line[0] * row_bytes, *const bottom = x + line[1] * row_bytes;
            y = pillion_row_between(p->columns, p->out_w, p->channels, top, bottom, line[2], y);
        }
    }
}
