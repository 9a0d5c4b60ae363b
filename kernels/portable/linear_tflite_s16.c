/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/layers16.h"
#include "pillion/rounding.h"

void pillion_linear_tflite_s16(const pillion_linear_tflite_s16_params *p, const int16_t *x, int16_t *y, void *scratch) {
    (void)scratch;
    for (int32_t row = 0; row < p->rows; row++, x += p->in_features) {
        const int8_t *w = p->weights;
        for (int32_t c = 0; c < p->out_features; c++, w += p->in_features) {
            int64_t sum = p->bias[c];
            for (int32_t k = 0; k < p->in_features; k++) {
                sum += x[k] * w[k];
            }
            const int32_t level = pillion_nearest_double_within((double)sum * p->scale[c], 17);
            *y++ = (int16_t)pillion_clamp(level, p->low, p->high);
        }
    }
}
