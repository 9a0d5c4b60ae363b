/* SPDX-License-Identifier: Apache-2.0
 * Convolution by a kernel of one pixel over at most 16 channels: every pixel of x is a window as it lies there. */
#include "pillion/mve.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "dot.h"

void pillion_conv2d_1x1_k16_s8_mve(const pillion_conv2d_1x1_k16_s8_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    const pillion_mve_dot dot = {p->rows,  p->row_bytes, p->pixels, p->pixel_bytes,
                                 p->out_c, p->chunks,    p->out_zp, p->constants};
    const int32_t outputs = p->rows * p->pixels * p->out_c;
    for (int32_t n = 0; n < p->images; n++) {
        pillion_mve_dot16(&dot, x + n * p->image_bytes, y + n * outputs);
    }
    pillion_mve_clamp(y, p->images * outputs, p->low, p->high);
}

#endif
