/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"

void pillion_resize_nearest_s8(const pillion_resize_nearest_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->in_h * p->in_w * p->channels) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            const int8_t *const row = x + p->rows[oy] * p->in_w * p->channels;
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                const int8_t *const pixel = row + p->columns[ox] * p->channels;
                for (int32_t c = 0; c < p->channels; c++) {
                    *y++ = pixel[c];
                }
            }
        }
    }
}
