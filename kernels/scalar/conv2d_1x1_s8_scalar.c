/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/scalar.h"
#include "dot.h"

/* Three pixels, side by side for each input. */
static void widen(const int8_t *x, int32_t in_c, int32_t inputs, int32_t *block) {
    const int8_t *x1 = x + in_c, *x2 = x1 + in_c;
    for (int32_t k = 0; k < inputs; k += 2, block += 2 * PILLION_SCALAR_PIXELS) {
        block[0] = x[k], block[1] = x1[k], block[2] = x2[k];
        block[3] = x[k + 1], block[4] = x1[k + 1], block[5] = x2[k + 1];
    }
}

void pillion_conv2d_1x1_s8_scalar(const pillion_conv2d_1x1_s8_scalar_params *p, const int8_t *x, int8_t *y,
                                  void *scratch) {
    const pillion_scalar_channels c = {p->weights, p->constants, p->inputs, p->out_c};
    const int32_t pixels = p->pixels, out_c = p->out_c;
    int32_t pixel = 0;
    for (; pixel + PILLION_SCALAR_PIXELS <= pixels; pixel += PILLION_SCALAR_PIXELS) {
        int8_t *const to = y + pixel * out_c;
        int8_t *const ys[PILLION_SCALAR_PIXELS] = {to, to + out_c, to + 2 * out_c};
        widen(x + pixel * p->in_c, p->in_c, p->inputs, scratch);
        pillion_scalar_dot(&c, scratch, ys);
    }
    for (; pixel < pixels; pixel++) {
        pillion_scalar_dot_1(&c, x + pixel * p->in_c, y + pixel * out_c);
    }
    pillion_scalar_clamp(y, pixels * out_c, p->low, p->high);
}
