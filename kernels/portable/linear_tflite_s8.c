/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/linear.h"
#include "pillion/rounding.h"

/* Rounds once, unlike pillion_finish. */
PILLION_APART void finish(const pillion_channels *c, const uint32_t *sums, int32_t first, int8_t *y, int32_t lanes) {
    const int32_t out_zp = c->out_zp, low = c->low, high = c->high;
    for (int32_t j = 0; j < lanes; j++) {
        const double real = (double)(int32_t)sums[j] * c->scale[first + j];
        y[j] = pillion_saturate(pillion_nearest_to_double(real), out_zp, low, high);
    }
}

void pillion_linear_tflite_s8(const pillion_linear_tflite_s8_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const pillion_channels c = {.weights = p->weights, .bias = p->bias, .scale = p->scale, .count = p->out_features,
                                .fours = (p->in_features + 3) / 4,
                                .out_zp = p->out_zp, .low = p->low, .high = p->high};
    pillion_linear(&c, x, p->rows, p->in_features, y, scratch, finish);
}
