/* SPDX-License-Identifier: Apache-2.0
 * Weights of four bits become the constants of dot_16_mve.c once, for all pixels: with so few inputs, loops over four bits pay more for sums
 * than for products. The constants hold for every two channels: three words of each (dot.h), then bytes of the one in the low half. */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#include <string.h>

#define HEAD 12  /* bytes of sum, multiplier and shift */
#define BYTES 28 /* of a channel: the head and 16 weights */

void pillion_conv2d_1x1_k16_s4_mve(const pillion_conv2d_1x1_k16_s4_mve_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int8_t *from = (const int8_t *)p->constants;
    int8_t *to = scratch;
    for (int32_t c = 0; c < p->out_c; c += 2, from += 2 * HEAD + 16, to += 2 * BYTES) {
        const int8x16_t two = vldrbq_s8(from + 2 * HEAD);
        memcpy(to, from, HEAD);
        vstrbq_s8(to + HEAD, vshrq_n_s8(vshlq_n_s8(two, 4), 4));
        memcpy(to + BYTES, from + HEAD, HEAD);
        vstrbq_s8(to + BYTES + HEAD, vshrq_n_s8(two, 4));
    }
    pillion_conv2d_1x1_k16_s4_mve_params of_bytes = *p;
    of_bytes.constants = scratch;
    pillion_mve_pointwise(&of_bytes, x, y, pillion_mve_dot_16, 0);
}
#endif
