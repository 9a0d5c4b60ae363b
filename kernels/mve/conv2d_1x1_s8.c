/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "clamp.h"
#include "dot.h"

void pillion_conv2d_1x1_s8_mve(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_mve_dot dot = {p->pixels, p->pixel_bytes, p->out_c, p->chunks, p->out_zp, p->constants};
    const int32_t row_outputs = p->pixels * p->out_c;
    int8_t *out = y;
    for (int32_t n = 0; n < p->images; n++) {
        for (int32_t row = 0; row < p->rows; row++, out += row_outputs) {
            pillion_mve_dot_s8(&dot, x + n * p->image_bytes + row * p->row_bytes, out);
        }
    }
    pillion_mve_clamp_s8(y, (int32_t)(out - y), p->low, p->high);
}

#endif
