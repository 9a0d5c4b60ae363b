/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/products.h"
#include "pillion/requantize.h"

void pillion_svdf_output_s8(const pillion_svdf_output_s8_params *p, const int16_t *memory, int8_t *y, void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++) {
        const int16_t *weights = p->weights;
        for (int32_t i = 0; i < p->units; i++, memory += p->remembered, weights += p->remembered) {
            const uint32_t sum = (uint32_t)p->bias[i] + pillion_products16(weights, memory, p->remembered);
            *y++ = pillion_saturate(pillion_requantize((int32_t)sum, p->multiplier, p->shift), p->out_zp, -128, 127);
        }
    }
}
