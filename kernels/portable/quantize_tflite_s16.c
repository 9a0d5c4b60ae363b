/* SPDX-License-Identifier: Apache-2.0 */
#include "pillion/kernels.h"
#include "pillion/rounding.h"

void pillion_quantize_tflite_s16(const pillion_quantize_tflite_s16_params *p, const float *x, int16_t *y, void *scratch) {
    (void)scratch;
    const int32_t out_zp = p->out_zp;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t level = pillion_nearest_within(x[i] / p->scale, 0, 17);
        y[i] = (int16_t)(pillion_clamp(level, -32768 - out_zp, 32767 - out_zp) + out_zp);
    }
}
