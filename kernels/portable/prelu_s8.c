/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

PILLION_INLINE int8_t element(const pillion_prelu_s8_params *p, int32_t value, int32_t slope) {
    const int32_t sloped = value < 0;
    const int32_t multiplier = sloped ? p->slope_multiplier : p->multiplier, shift = sloped ? p->slope_shift : p->shift;
    const int32_t scaled = pillion_requantize(sloped ? value * slope : value, multiplier, shift);
    return pillion_saturate(scaled, p->out_zp, -128, 127);
}

void pillion_prelu_s8(const pillion_prelu_s8_params *p, const int8_t *x, const int8_t *slope, int8_t *y,
                      void *scratch) {
    (void)scratch;
    const pillion_prelu_s8_params known = *p; /* y does not point into it */
    for (int32_t n = 0; n < known.outer; n++) {
        for (int32_t c = 0; c < known.slopes; c++) {
            const int32_t own = slope[c] - known.slope_zp;
            for (int32_t i = 0; i < known.inner; i++) {
                *y++ = element(&known, *x++ - known.in_zp, own);
            }
        }
    }
}
