/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"

void pillion_mve_pointwise(const pillion_conv2d_1x1_s8_mve_params *p, const int8_t *x, int8_t *y, int8_t *scratch,
                           pillion_mve_products dot, pillion_mve_loop loop) {
    const pillion_mve_dot_task task = {loop,     p->rows,   p->row_bytes, p->pixels, p->pixel_bytes,
                                       p->out_c, p->chunks, p->out_zp,    p->signs,   p->constants,  scratch};
    const int32_t outputs = p->rows * p->pixels * p->out_c;
    for (int32_t n = 0; n < p->images; n++) {
        dot(&task, x + n * p->image_bytes, y + n * outputs);
    }
    pillion_mve_clamp(y, p->images * outputs, p->low, p->high);
}

#endif
