/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/requantize.h"

void pillion_linear_s8(const pillion_linear_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features) {
        const int8_t *w = p->weights;
        for (int32_t n = 0; n < p->out_features; n++, w += p->in_features) {
            int32_t sum = p->bias[n];
            for (int32_t k = 0; k < p->in_features; k++) {
                sum += (x[k] - p->in_zp) * w[k];
            }
            const int32_t value = pillion_requantize(sum, p->multiplier[n], p->shift[n]) + p->out_zp;
            *y++ = (int8_t)pillion_clamp(value, p->low, p->high);
        }
    }
}
