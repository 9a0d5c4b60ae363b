/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/fixed16.h"
#include "pillion/kernels.h"
#include "pillion/products.h"

void pillion_svdf_memory_s16(const pillion_svdf_memory_s16_params *p, const int8_t *x, const int16_t *memory, int16_t *y,
                             void *scratch) {
    (void)scratch;
    for (int32_t n = 0; n < p->batch; n++, x += p->inputs) {
        for (int32_t i = 0; i < p->filters; i++, memory += p->length, y += p->length) {
            const int32_t sum = p->bias[i] + pillion_products(x, p->weights + i * p->inputs, p->inputs);
            for (int32_t j = 1; j < p->length; j++) {
                y[j - 1] = memory[j];
            }
            y[p->length - 1] = (int16_t)pillion_saturate16(pillion_requantize(sum, p->multiplier, p->shift));
        }
    }
}
