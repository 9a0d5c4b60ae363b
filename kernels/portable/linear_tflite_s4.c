/* SPDX-License-Identifier: Apache-2.0
 * As conv2d_s4.c, output by output. */
#include "pillion/layers4.h"
#include "pillion/requantize.h"
#include "pillion/rounding.h"

void pillion_linear_tflite_s4(const pillion_linear_tflite_s4_params *p, const int8_t *x, int8_t *y, void *scratch) {
    const int8_t *packed = p->weights, *const w = scratch;
    for (int32_t c = 0; c < p->out_features; c++) {
        packed = pillion_unpack_4(packed, p->in_features, scratch);
        for (int32_t row = 0; row < p->rows; row++) {
            const int8_t *const from = x + row * p->in_features;
            int32_t sum = p->bias[c];
            for (int32_t k = 0; k < p->in_features; k++) {
                sum += (from[k] - p->in_zp) * w[k];
            }
            const int32_t level = pillion_nearest_to_double((double)sum * p->scale[c]);
            y[row * p->out_features + c] = pillion_saturate(level, p->out_zp, p->low, p->high);
        }
    }
}
