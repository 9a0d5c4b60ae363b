/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#if defined(__ARM_FEATURE_MVE)
#include "halves.h"

void pillion_conv2d_1x1_s16_s4_mve(const pillion_conv2d_1x1_s16_s4_mve_params *p, const int16_t *x, int16_t *y, void *scratch) {
    pillion_conv2d_1x1_s16_s4_mve_params bytes = *p;
    bytes.out_c = 2 * p->out_c;
    bytes.low = INT8_MIN;
    bytes.high = INT8_MAX;
    (void)scratch;
    pillion_mve_pointwise(&bytes, (const int8_t *)x, (int8_t *)y, pillion_mve_dot16_4, pillion_mve_dot16_4_any);
    if (p->signs == 0) {
        pillion_mve_clamp_16(y, p->images * p->rows * p->pixels * p->out_c, p->low, p->high);
    }
}

#endif
