/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)
#include "bytes.h"
#include "halves.h"

typedef pillion_conv2d_1x1_s8_mve_params params;

/* Returns the bytes of all results; a pixel has `pixel` bytes. */
static inline int32_t images(const params *p, const int8_t *x, int8_t *y, int8_t *scratch, pillion_mve_products dot, pillion_mve_loop loop,
                             int32_t pixel) {
    const pillion_mve_dot_task task = {loop,  p->rows,   p->row_bytes, p->pixels, p->pixel_bytes,
                                       pixel, p->chunks, p->out_zp,    p->signs,  p->constants,  scratch};
    const int32_t outputs = p->rows * p->pixels * pixel;
    for (int32_t n = 0; n < p->images; n++) {
        dot(&task, x + n * p->image_bytes, y + n * outputs);
    }
    return p->images * outputs;
}

void pillion_mve_pointwise(const params *p, const int8_t *x, int8_t *y, int8_t *scratch, pillion_mve_products dot, pillion_mve_loop loop) {
    const int32_t count = images(p, x, y, scratch, dot, loop, p->out_c);
    pillion_mve_clamp(y, count, p->low, p->high);
}

void pillion_mve_pointwise_16(const params *p, const void *x, int16_t *y, int8_t *scratch, pillion_mve_products dot, pillion_mve_loop loop) {
    const int32_t bytes = images(p, x, (int8_t *)y, scratch, dot, loop, 2 * p->out_c);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, bytes / 2, p->low, p->high);
    }
}

#endif
