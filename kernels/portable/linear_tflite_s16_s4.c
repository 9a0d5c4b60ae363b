/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers4.h"
#include "pillion/requantize.h"
#include "pillion/rounding.h"

void pillion_linear_tflite_s16_s4(const pillion_linear_tflite_s16_s4_params *p, const int16_t *x, int16_t *y, void *scratch) {
    const int8_t *packed = p->weights, *const w = scratch;
    for (int32_t c = 0; c < p->out_features; c++) {
        packed = pillion_unpack_4(packed, p->in_features, scratch);
        for (int32_t row = 0; row < p->rows; row++) {
            const int16_t *const from = x + row * p->in_features;
            int64_t sum = p->bias[c];
            for (int32_t k = 0; k < p->in_features; k++) {
                sum += from[k] * w[k];
            }
            const int32_t level = pillion_nearest_double_within((double)sum * p->scale[c], 17);
            y[row * p->out_features + c] = (int16_t)pillion_clamp(level, p->low, p->high);
        }
    }
}
