/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

static int8_t element(const pillion_prelu_s8_params *p, int32_t value, int32_t slope) {
    const int32_t plain = pillion_requantize(value, p->multiplier, p->shift);
    const int32_t sloped = pillion_requantize(value * slope, p->slope_multiplier, p->slope_shift);
    return pillion_saturate(value >= 0 ? plain : sloped, p->out_zp, -128, 127);
}

void pillion_prelu_s8(const pillion_prelu_s8_params *p, const int8_t *x, const int8_t *slope, int8_t *y,
                      void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->outer; n++) {
        for (int32_t c = 0; c < p->slopes; c++) {
            const int32_t own = slope[c] - p->slope_zp;
            for (int32_t i = 0; i < p->inner; i++) {
                *y++ = element(p, *x++ - p->in_zp, own);
            }
        }
    }
}
